"""The run of the demo: one step after the other. The last step, the cleanup, always runs."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.demo import figures, folder, load
from orchestrator.demo.figures import Figures, TaskProgress
from orchestrator.demo.screen import Gauge, Screen, near
from orchestrator.demo.workers import GRACE_SECONDS, Workers
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import connect, embedded_stop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHARED = "The server goes on, since another process uses it."
LOOK_EVERY_SECONDS = 0.1
TIME_MAX_SECONDS = 120.0
# Time for the event loop to handle a signal that has already arrived.
SIGNAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The folder and the size of a run."""

    folder: Path
    workers: int = 2
    fast: int = 5000

    @property
    def url(self) -> str:
        return f"embedded:{self.folder}"

    @property
    def log(self) -> Path:
        return self.folder / "workers.log"


class TooSlow(OrchestratorError):
    """The demo's tasks were not finished in time; see workers.log in its folder."""


def run(request: Run, screen: Screen | None = None) -> int:
    """Run the demo. Return the exit status: 0, or the status of the signal that ended it."""
    screen = screen or Screen()
    received: list[int] = []
    with folder.taken(request.folder):
        try:
            screen.result(
                asyncio.run(until_signalled(request, screen, received)), request.folder, request.log
            )
        except asyncio.CancelledError:
            pass
        finally:
            alone = embedded_stop.leave(request.url)
    if received:
        screen.say(f"Interrupted. {'Nothing is left running.' if alone else SHARED}")
        return 128 + received[0]
    return 0


async def until_signalled(request: Run, screen: Screen, received: list[int]) -> Figures:
    """Perform the steps. A signal ends the run at its next wait, a second signal at once."""
    words = ["orchestrator.demo.tasks:app", "--url", request.url, "--grace", str(GRACE_SECONDS)]
    workers = Workers(words, size=request.workers, log=request.log)
    performing = asyncio.create_task(perform(request, screen, workers))

    def end(number: int) -> None:
        received.append(number)
        if len(received) == 1:
            performing.cancel()
        else:
            # A normal exit waits for all threads, and a thread may still wait for the server.
            workers.kill()
            os._exit(128 + received[0])

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await performing
    except Exception:
        # Ctrl-C also ends initdb, and its error may arrive before our signal handler runs.
        await asyncio.sleep(SIGNAL_SECONDS)
        if received:
            raise asyncio.CancelledError from None
        raise


async def perform(request: Run, screen: Screen, workers: Workers) -> Figures:
    """Perform the steps. The workers stop at the end, also after an error."""
    screen.step(f"Starting PostgreSQL in {near(request.folder)}")
    # In threads, so that a signal does not wait for them. They complete on their own.
    info = await asyncio.to_thread(connect.conninfo, request.url, application_name="orchestrator demo")
    screen.step("Making the tables")
    version = await asyncio.to_thread(folder.make_tables, request.url)
    try:
        async with await connect.open_async(info) as watching:
            screen.step(f"Starting {request.workers} workers on PostgreSQL {version}")
            request.log.write_bytes(b"")
            workers.start()
            await working(watching, workers, request.workers)
            total = load.size(request.fast)
            screen.step(f"Enqueueing {total:,} tasks from {load.PRODUCERS} producers")
            with screen.gauge(total) as show:
                await follow(load.produce(info, request.fast), watching, workers, show, until=is_caught_up)
                await follow(load.probe(info), watching, workers, show, until=lambda s: s.finished >= total)
            return await figures.measure(watching)
    finally:
        await workers.stop()


async def working(watching: figures.Connection, workers: Workers, size: int) -> None:
    """Return when all workers serve."""
    deadline = time.monotonic() + TIME_MAX_SECONDS
    while (await figures.read_progress(watching)).workers < size:
        workers.check()
        in_time(deadline)
        await asyncio.sleep(LOOK_EVERY_SECONDS / 5)


async def follow(
    producing: Coroutine[Any, Any, None], watching: figures.Connection, workers: Workers, show: Gauge,
    *, until: Callable[[TaskProgress], bool],
) -> None:  # fmt: skip
    """Produce, and show the progress, until everything is produced and `until` is true."""
    deadline = time.monotonic() + TIME_MAX_SECONDS
    producer = asyncio.create_task(producing)
    try:
        while True:
            # Read this before the progress: if the producer is done, the progress counts all its tasks.
            produced = producer.done()
            if produced:
                producer.result()
            progress = await figures.read_progress(watching)
            show(progress)
            if produced and until(progress):
                return
            workers.check()
            in_time(deadline)
            await asyncio.sleep(LOOK_EVERY_SECONDS)
    finally:
        producer.cancel()
        await asyncio.gather(producer, return_exceptions=True)


def is_caught_up(progress: TaskProgress) -> bool:
    """Return whether no ready task waits for a worker."""
    return progress.ready == 0


def in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TooSlow
