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
from orchestrator.demo.figures import Figures, Standing
from orchestrator.demo.screen import Gauge, Screen, near
from orchestrator.demo.workers import GRACE_SECONDS, Workers
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import connect, embedded_stop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHARED = "The server goes on, since another process uses it."
LOOK_EVERY_SECONDS = 0.1
TIME_MAX_SECONDS = 120.0
# For the loop to look at a signal that is there already.
SIGNAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be played, and where."""

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
    """The demo's tasks were not finished in time; its folder's workers.log tells what the workers did."""


def run(play: Run, screen: Screen | None = None) -> int:
    """Play; return the exit status: 0, or that of the signal that ended it."""
    screen = screen or Screen()
    received: list[int] = []
    with folder.taken(play.folder):
        try:
            screen.result(asyncio.run(until_signalled(play, screen, received)), play.folder, play.log)
        except asyncio.CancelledError:
            pass
        finally:
            alone = embedded_stop.leave(play.url)
    if received:
        screen.say(f"Interrupted. {'Nothing is left running.' if alone else SHARED}")
        return 128 + received[0]
    return 0


async def until_signalled(play: Run, screen: Screen, received: list[int]) -> Figures:
    """Perform; a signal ends it at the next wait, a second one at once."""
    words = ["orchestrator.demo.tasks:app", "--url", play.url, "--grace", str(GRACE_SECONDS)]
    workers = Workers(words, size=play.workers, log=play.log)
    performing = asyncio.create_task(perform(play, screen, workers))

    def end(number: int) -> None:
        received.append(number)
        if len(received) == 1:
            performing.cancel()
        else:
            # A thread may still wait for the server, and the interpreter would wait for the thread.
            workers.kill()
            os._exit(128 + received[0])

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await performing
    except Exception:
        # Ctrl-C is also for initdb, whose end may be told before the signal is.
        await asyncio.sleep(SIGNAL_SECONDS)
        if received:
            raise asyncio.CancelledError from None
        raise


async def perform(play: Run, screen: Screen, workers: Workers) -> Figures:
    """Go through the steps; the workers are gone afterwards, however it went."""
    screen.step(f"Starting PostgreSQL in {near(play.folder)}")
    # In threads: a signal must not wait for them. They end by themselves, and leave nothing half done.
    info = await asyncio.to_thread(connect.conninfo, play.url, application_name="orchestrator demo")
    screen.step("Making the tables")
    version = await asyncio.to_thread(folder.make_tables, play.url)
    try:
        async with await connect.open_async(info) as watching:
            screen.step(f"Starting {play.workers} workers on PostgreSQL {version}")
            play.log.write_bytes(b"")
            workers.start()
            await working(watching, workers, play.workers)
            total = load.size(play.fast)
            screen.step(f"Enqueueing {total:,} tasks from {load.PRODUCERS} producers")
            with screen.gauge(total) as show:
                await follow(load.produce(info, play.fast), watching, workers, show, until=is_caught_up)
                await follow(load.probe(info), watching, workers, show, until=lambda s: s.finished >= total)
            return await figures.measure(watching)
    finally:
        await workers.stop()


async def working(watching: figures.Connection, workers: Workers, size: int) -> None:
    """Return when all workers serve."""
    deadline = time.monotonic() + TIME_MAX_SECONDS
    while (await figures.standing(watching)).workers < size:
        workers.check()
        in_time(deadline)
        await asyncio.sleep(LOOK_EVERY_SECONDS / 5)


async def follow(
    producing: Coroutine[Any, Any, None], watching: figures.Connection, workers: Workers, show: Gauge,
    *, until: Callable[[Standing], bool],
) -> None:  # fmt: skip
    """Produce, and show how far it is until all is produced and it is far enough."""
    deadline = time.monotonic() + TIME_MAX_SECONDS
    producer = asyncio.create_task(producing)
    try:
        while True:
            # Before the look: what it sees is then all there will be.
            produced = producer.done()
            if produced:
                producer.result()
            standing = await figures.standing(watching)
            show(standing)
            if produced and until(standing):
                return
            workers.check()
            in_time(deadline)
            await asyncio.sleep(LOOK_EVERY_SECONDS)
    finally:
        producer.cancel()
        await asyncio.gather(producer, return_exceptions=True)


def is_caught_up(standing: Standing) -> bool:
    """Tell whether nothing ready waits for a worker."""
    return standing.ready == 0


def in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TooSlow
