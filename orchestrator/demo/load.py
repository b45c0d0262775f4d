"""The demo's tasks: a mix of all types from several producers at the same time, then a probe now and then."""

import asyncio
import random
from collections.abc import Iterator

from orchestrator.app import Call
from orchestrator.demo import tasks
from orchestrator.postgres import connect

PRODUCERS = 4
BATCH = 100

SLOW = 60
SLOW_SECONDS = 0.3
FLAKY = 150
POISONED = 20
DELAYED = 100
DELAY_SECONDS = 3.0
KEYS = 100

PROBES = 60
PROBE_EVERY_SECONDS = 0.05


def size(fast: int) -> int:
    """Return the number of tasks. Two enqueues with the same key make one task."""
    return fast + SLOW + FLAKY + POISONED + DELAYED + KEYS + PROBES


async def produce(info: str, fast: int) -> None:
    """Enqueue the mix, each producer on a connection of its own."""
    await asyncio.gather(*(deliver(info, calls) for calls in shares(fast)))


async def probe(info: str) -> None:
    """Enqueue one probe after the other, each in its own transaction, so slowly that they are no load."""
    async with await connect.open_async(info) as connection:
        for _ in range(PROBES):
            await tasks.probe.using(connection).aenqueue()
            await asyncio.sleep(PROBE_EVERY_SECONDS)


async def deliver(info: str, calls: list[Call]) -> None:
    async with await connect.open_async(info) as connection:
        for first in range(0, len(calls), BATCH):
            await tasks.app.aenqueue_many(calls[first : first + BATCH], using=connection)


def shares(fast: int) -> list[list[Call]]:
    """Shuffle the mix and divide it among the producers. The order is the same in each run."""
    mixed = list(mix(fast))
    random.Random(1).shuffle(mixed)  # nosec B311 # noqa: S311 - the order is no secret
    shares = [mixed[n::PRODUCERS] for n in range(PRODUCERS)]
    for n, share in enumerate(shares):
        # The same producer enqueues both tasks of a key. Two producers that took the keys in different orders would
        # wait for each other.
        share += [tasks.keyed.using(key=f"order-{k}").call(order=f"order-{k}") for k in keys(n)]
    return shares


def mix(fast: int) -> Iterator[Call]:
    for number in range(fast):
        yield tasks.fast.call(number=number)
    for _ in range(SLOW):
        yield tasks.slow.call(seconds=SLOW_SECONDS)
    for number in range(FLAKY):
        yield tasks.flaky.call(failures=1 + number % 2)
    for order in range(POISONED):
        yield tasks.poisoned.call(order=order)
    for number in range(DELAYED):
        yield tasks.delayed.using(delay=DELAY_SECONDS).call(number=number)


def keys(producer: int) -> list[int]:
    return 2 * list(range(producer, KEYS, PRODUCERS))
