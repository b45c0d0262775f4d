"""The front door for Python code: declare tasks, enqueue them, wait for them, run a worker.

    app = Orchestrator("postgresql://…")

    @app.task(queue="mail")
    async def welcome(user_id: int) -> None: ...

    welcome.enqueue(user_id=1)                      # on a connection of our own, committed at once
    welcome.using(session).enqueue(user_id=1)       # on yours, in your transaction

It holds no logic of a station: it finds out what the caller holds, and passes on.
"""

from orchestrator.app.handle import Handle, Handles
from orchestrator.app.orchestrator import Orchestrator
from orchestrator.app.task import Call, Sender, TaskFunction

__all__ = ["Call", "Handle", "Handles", "Orchestrator", "Sender", "TaskFunction"]
