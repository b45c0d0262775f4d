"""An application that raises, logs and reports its whole input."""

from orchestrator import Backoff, Context, Orchestrator

app = Orchestrator()


@app.task(name="stranger.repeat", backoff=Backoff(base_seconds=0.0, jitter=0.0), max_attempts=2)
async def repeat(text: str, context: Context) -> str:
    """Log and raise the text in the first attempt, return it in the second."""
    if context.attempt > 1:
        return text
    context.log.warning(text, said=text)
    try:
        raise ValueError(text)
    except ValueError:
        context.log.exception("caught")
        raise


@app.task(name="stranger.give_up", max_attempts=1)
def give_up(text: str) -> None:
    """Raise the text in the only attempt."""
    raise RuntimeError(text)
