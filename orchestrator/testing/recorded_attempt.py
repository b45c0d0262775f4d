"""An attempt whose exception can be seen afterwards: a test wants the one that the handler raised, not its text."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from orchestrator.execute import Attempt
from orchestrator.task.outcome import End

# How long a handler may take to end, when its time is over.
CANCEL_SECONDS = 5.0

T = TypeVar("T")


class RecordedAttempt(Attempt, eq=False):
    """Keeps what was raised, and ends in time, as the worker's look at its slots would have it."""

    raised: BaseException | None = None

    def broke(self, error: BaseException) -> End:
        """Return the end of an attempt that raised where nothing should."""
        self.raised = error
        return Attempt.broke(self, error)

    async def apart(self, function: Callable[..., T], *arguments: Any, seconds: float | None = None) -> T:
        """Run it here: a test has a debugger, and no other tasks to keep from waiting."""
        return function(*arguments)

    async def ended(self) -> End:
        """Run the handler to its end, or to its timeout."""
        job = asyncio.ensure_future(self.run())
        try:
            await asyncio.wait({job}, timeout=self.task.timeout_seconds or None)
            if not job.done():
                self.expire()
                job.cancel()
                await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        except asyncio.CancelledError:
            self.call_off()
            job.cancel()
            raise
        end = job.result() if job.done() else self.timed_out()
        return end if self.context is None else await self.settled(end)
