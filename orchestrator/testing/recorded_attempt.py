"""An attempt that keeps its exception: a test needs the handler's exception itself, not its text."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from orchestrator.execute import Attempt
from orchestrator.task.outcome import RELEASED, End

# How long a handler may take to end after its timeout.
CANCEL_SECONDS = 5.0

T = TypeVar("T")


class RecordedAttempt(Attempt, eq=False, kw_only=True):
    """Keeps the exception, and enforces the timeout, as a worker does for its slots."""

    raised: BaseException | None = None

    def broke(self, error: BaseException) -> End:
        """Return the end of an attempt that raised unexpectedly."""
        self.raised = error
        return Attempt.broke(self, error)

    async def apart(self, function: Callable[..., T], *arguments: Any, seconds: float | None = None) -> T:
        """Run the function in this thread: that suits a debugger, and no other tasks wait."""
        return function(*arguments)

    async def ended(self) -> End:
        """Run the handler to its end, or to its timeout."""
        job = asyncio.ensure_future(self.run())
        try:
            await asyncio.wait({job}, timeout=self.task.timeout_seconds or None)
            if not job.done():
                self.stop(self.timed_out())
                job.cancel()
                await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        except asyncio.CancelledError:
            self.stop(RELEASED)
            job.cancel()
            raise
        self.end = job.result() if job.done() else self.ending or self.timed_out()
        if self.context is not None:
            self.end = await self.settled(self.end)
        self.ended_at = time.monotonic()
        return self.end
