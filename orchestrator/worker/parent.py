"""The parent of `orchestrator worker --processes N`: it keeps N places taken by worker processes, and runs no task.

    the first child starts alone    it serves → all others start
                                    it ends before it serves → so do we, with its code: what is wrong with the
                                    application, the settings or the database was said once, and not N times in a loop
    a child stops cleanly           its place stays empty: --until-empty, drain_worker() or a signal of a hand ended it,
                                    and whoever drains a host by SQL does not want it back. It has announced its stop:
                                    without that it has died, also with exit code 0
    it is worn out                  another takes its place at once
    it dies otherwise               another takes its place, after 0.5 s, then 1, 2, 4 … 30; after a minute of life the
                                    count begins anew
    we are told to stop             all are told; the second time to hurry; who is there long after the grace is killed
    we are killed                   the children see the line end (`parent_connection`), and stop by themselves

It ends when every place is empty for good, with the worst code among the last ends of each. It does not import the
application: no thread, connection or memory of that is here, so nothing in it can take the parent along.
"""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

from orchestrator import events, observe
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import embedded
from orchestrator.task.backoff import Backoff, delay_seconds
from orchestrator.worker import exit_codes
from orchestrator.worker.child_process import Child, Command, Serving
from orchestrator.worker.parent_connection import MARGIN_SECONDS

BACKOFF = Backoff(base_seconds=0.5, cap_seconds=30.0)
SETTLED_SECONDS = 60.0
"""Who has lived for so long died of something else than its start."""

LAST_MESSAGES_SECONDS = 5.0
"""The last messages of a child are in our socket when it ends. The wait is over with them, unless another process holds
the child's end of the line."""


class Parent:
    """Keeps worker processes."""

    def __init__(
        self,
        command: Command,
        *,
        processes: int,
        backoff: Backoff = BACKOFF,
        settled_seconds: float = SETTLED_SECONDS,
        margin_seconds: float = MARGIN_SECONDS,
        family: observe.Processes | None = None,
    ) -> None:
        self._command = command
        self._processes = processes
        self._backoff = backoff
        self._settled_seconds = settled_seconds
        self._margin_seconds = margin_seconds
        self._metrics = family
        # Until a child has said what its grace is, none has anything to finish.
        self._grace_seconds = 0.0
        self._children: set[Child] = set()
        self._served = False
        self._go_on = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = False
        self._killing: asyncio.TimerHandle | None = None

    def run(self) -> int:
        """Keep all places taken until told to stop, or until each is empty for good; return the exit code."""
        # asyncio's own loop, whatever the policy: uvloop has SIGCHLD for itself.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return runner.run(self._run())

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in exit_codes.STOPPING:
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGCHLD, self._look)
        try:
            ends = await asyncio.gather(*(self._keep(place) for place in range(1, self._processes + 1)))
        finally:
            if self._killing is not None:
                self._killing.cancel()
        return max(map(exit_codes.fault, ends))

    def stop(self) -> None:
        """Let all of them finish, and end. Again: hurry."""
        if self._hurried:
            return
        self._hurried = self._stopping.is_set()
        self._stopping.set()
        self._go_on.set()
        events.emit(events.ChildrenStopping(len(self._children), self._hurried))
        for child in self._children:
            if self._hurried:
                child.hurry()
            else:
                child.stop()
        if self._killing is not None:
            self._killing.cancel()
        left_seconds = self._margin_seconds + (0.0 if self._hurried else self._grace_seconds)
        self._killing = asyncio.get_running_loop().call_later(left_seconds, self._kill)

    async def _keep(self, place: int) -> int:
        """Keep one place taken; return how its last child ended."""
        # From the start, also of who waits for the first: a part of us that is ready is not us.
        if self._metrics is not None:
            self._metrics.begin(place)
        if place > 1:
            await self._go_on.wait()
        status = deaths = 0
        # Ends: when told to, with a child that ends well, or with the first one if that never serves.
        while not self._stopping.is_set():
            began = time.monotonic()
            pid, status, how = await self._one(place)
            settled = time.monotonic() - began >= self._settled_seconds
            deaths = 0 if status == exit_codes.WORN_OUT_CODE else 1 if settled else deaths + 1
            wait_seconds = self._wait_seconds(status, deaths)
            # Before it is said: who reads of it and asks the port is told the same.
            if self._metrics is not None:
                self._metrics.gone(place, for_good=wait_seconds is None)
            # Told to stop while it was still loading the application, it had nothing to end by itself.
            if status == exit_codes.DONE or (self._stopping.is_set() and -status in exit_codes.STOPPING):
                events.emit(events.ChildEnded(place, pid))
            else:
                events.emit(events.ChildDied(place, pid, how, wait_seconds))
            if wait_seconds is None:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_seconds)
        if not self._served:
            self._stopping.set()
        self._go_on.set()
        return status

    def _wait_seconds(self, status: int, deaths: int) -> float | None:
        """Say after how long another takes the place of one that ended; None: nobody does."""
        if status == exit_codes.DONE or self._stopping.is_set() or not self._served:
            return None
        return round(delay_seconds(self._backoff, deaths), 3) if deaths else 0.0

    async def _one(self, place: int) -> tuple[int | None, int, str]:
        """Start a child and wait for its end; return its pid, its status, and that in words."""
        try:
            child = await Child.start(self._command)
        except OSError as error:
            return None, exit_codes.FAILED, f"could not be started: {error.strerror}"
        self._children.add(child)
        events.emit(events.ChildStarted(place, child.pid))
        if self._stopping.is_set():
            child.stop()
        reading = asyncio.create_task(self._read(child, place))
        status = await child.ended()
        await asyncio.wait([reading], timeout=LAST_MESSAGES_SECONDS)
        reading.cancel()
        self._children.discard(child)
        child.close()
        if child.crashed_with_success:
            return child.pid, exit_codes.FAILED, f"exit code {status}, without a clean stop"
        return child.pid, status, exit_codes.describe(status)

    async def _read(self, child: Child, place: int) -> None:
        """Read that a child serves, and its numbers if it was asked for them."""
        async for message in child.messages():
            if isinstance(message, Serving):
                await self._note_serving(message)
            elif self._metrics is not None:
                self._metrics.heard(place, message)

    async def _note_serving(self, serving: Serving) -> None:
        """A child serves: from now on application, settings and database are known to be good."""
        self._served = True
        self._grace_seconds = max(self._grace_seconds, serving.grace_seconds)
        if serving.embedded is not None:
            # Ours too until we end, or it would be stopped and started again when all children die at once. The one
            # who told us holds it, so a failure costs no more than that.
            with suppress(OrchestratorError):
                await asyncio.to_thread(embedded.start, Path(serving.embedded.removeprefix("embedded:")))
        self._go_on.set()

    def _look(self) -> None:
        # One signal may stand for several ends.
        for child in self._children:
            child.look()

    def _kill(self) -> None:
        for child in self._children:
            events.emit(events.ChildKilled(child.pid))
            child.kill()
