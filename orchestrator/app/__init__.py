"""The public API for Python code: declare tasks, enqueue them, wait for them, run a worker.

    app = Orchestrator("postgresql://…")

    @app.task(queue="mail")
    async def welcome(user_id: int) -> None: ...

    welcome.enqueue(user_id=1)                      # on a pooled connection, committed at once
    welcome.using(session).enqueue(user_id=1)       # on your connection, in your transaction

This package finds out what the caller holds, and calls the package that does the work. It holds no other logic.
"""

from orchestrator.app.handle import Handle, Handles
from orchestrator.app.orchestrator import Orchestrator
from orchestrator.app.task import Call, Sender, TaskFunction

__all__ = ["Call", "Handle", "Handles", "Orchestrator", "Sender", "TaskFunction"]
