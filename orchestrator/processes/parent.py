"""The parent of `orchestrator worker --processes N`: it keeps worker processes in N places, and runs no task.

    the first child starts alone    when it serves, all others start
                                    if it ends before it serves, the parent ends with its code: an error in the
                                    application, the settings or the database is reported once, not N times in a loop
    a child stops cleanly           its place stays empty: --until-empty, drain_worker() or a manual signal ended it,
                                    and an operator who drains a host with SQL does not want it back. The child has
                                    announced its stop; without that it has died, also with exit code 0
    a child is worn out             another takes its place at once
    a child dies otherwise          another takes its place after 0.5 s, then 1, 2, 4 … 30; after a minute of life the
                                    delays begin again at 0.5 s
    the parent gets a stop          it passes the stop to all children, and the second stop as `hurry`; it kills a child
                                    that is still there long after the grace
    the parent is killed            the children see the connection end (`parent_connection`) and stop

It ends when every place is empty for good, with the worst exit code among the last children of all places. It does not
import the application: it has none of its threads, connections or memory, so the application cannot end the parent.
"""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

from orchestrator import events, observe
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import embedded
from orchestrator.processes import exit_codes
from orchestrator.processes.parent_connection import MARGIN_SECONDS
from orchestrator.processes.worker_process import Child, Command, Serving
from orchestrator.task.backoff import Backoff, delay_seconds

BACKOFF = Backoff(base_seconds=0.5, cap_seconds=30.0)
SETTLED_SECONDS = 60.0
"""A child that lives for so long did not die because of its start."""

LAST_MESSAGES_SECONDS = 5.0
"""The last messages of a child are in our socket when it ends. The wait ends with them, unless another process holds
the child's end of the connection."""


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
        metrics: observe.Processes | None = None,
    ) -> None:
        self._command = command
        self._processes = processes
        self._backoff = backoff
        self._settled_seconds = settled_seconds
        self._margin_seconds = margin_seconds
        self._metrics = metrics
        # A child runs nothing before it has reported its grace.
        self._grace_seconds = 0.0
        self._children: set[Child] = set()
        self._served = False
        self._go_on = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = False
        self._killing: asyncio.TimerHandle | None = None

    def run(self) -> int:
        """Keep all places taken until stop(), or until each is empty for good. Return the exit code."""
        # asyncio's own loop, whatever the policy: uvloop keeps SIGCHLD for itself.
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
        """Let all children finish and end. The second call makes them hurry."""
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
        """Keep one place taken. Return how its last child ended."""
        # From the start, also for places that wait for the first child: the worker is ready only when all places are.
        if self._metrics is not None:
            self._metrics.begin(place)
        if place > 1:
            await self._go_on.wait()
        status = deaths = 0
        # Ends: at stop(), with a child that stops cleanly, or with the first child if that never serves.
        while not self._stopping.is_set():
            began = time.monotonic()
            pid, status, how = await self._one(place)
            settled = time.monotonic() - began >= self._settled_seconds
            deaths = 0 if status == exit_codes.WORN_OUT_CODE else 1 if settled else deaths + 1
            wait_seconds = self._wait_seconds(status, deaths)
            # Before the event, so that the port already shows what a reader of the event expects.
            if self._metrics is not None:
                self._metrics.gone(place, for_good=wait_seconds is None)
            # A child that gets the stop while it still loads the application dies of the signal: that is no fault.
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
        """Return after how many seconds another child takes the place of one that ended. None: none does."""
        if status == exit_codes.DONE or self._stopping.is_set() or not self._served:
            return None
        return round(delay_seconds(self._backoff, deaths), 3) if deaths else 0.0

    async def _one(self, place: int) -> tuple[int | None, int, str]:
        """Start a child and wait for its end. Return its pid, its status, and the status in words."""
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
        """Read a child's messages: that it serves, then its metrics if it sends them."""
        async for message in child.messages():
            if isinstance(message, Serving):
                await self._note_serving(message)
            elif self._metrics is not None:
                self._metrics.heard(place, message)

    async def _note_serving(self, serving: Serving) -> None:
        """A child serves, so the application, the settings and the database are good."""
        self._served = True
        self._grace_seconds = max(self._grace_seconds, serving.grace_seconds)
        if serving.embedded is not None:
            # The parent holds the embedded server, too. Otherwise it would stop and start again when all children die
            # at once. The child holds it now, so a failure here costs only that.
            with suppress(OrchestratorError):
                await asyncio.to_thread(embedded.start, Path(serving.embedded.removeprefix("embedded:")))
        self._go_on.set()

    def _look(self) -> None:
        # One SIGCHLD can stand for several ended children.
        for child in self._children:
            child.look()

    def _kill(self) -> None:
        for child in self._children:
            events.emit(events.ChildKilled(child.pid))
            child.kill()
