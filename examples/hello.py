"""The smallest application: one task. docker-compose.yml runs two workers for it."""

from orchestrator import Orchestrator

app = Orchestrator()


@app.task(name="hello.greet")
async def greet(name: str = "world") -> dict[str, str]:
    """Greet somebody by name."""
    return {"greeting": f"Hello, {name}!"}
