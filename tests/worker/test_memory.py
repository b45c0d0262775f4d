"""The memory of a worker's tasks is bounded in bytes, not only in their number."""

import asyncio
import json
import secrets

import psycopg
import pytest

from orchestrator import Orchestrator
from tests.patience import PATIENCE_SECONDS
from tests.worker.running import statuses

SMALL = 4_000
RUNNING_BYTES = 20 * 4 * 192_000 + 2_000_000
# Twice what may wait for a slot, since the next claim is on its way; and what runs.
HELD_BYTES_MAX = 2 * 16_000_000 + RUNNING_BYTES
# Wide text counts with its stored size until it has arrived, and takes four times as much then.
HELD_WIDE_BYTES_MAX = 4 * 16_000_000 + RUNNING_BYTES


def fill(connection: psycopg.Connection, payload: dict[str, str], count: int) -> None:
    """Enqueue large payloads behind many small ones, which a worker claims a thousand at a time."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (type, priority) SELECT 'small', 75 FROM generate_series(1, %s)",
        [SMALL],
    )
    connection.execute(
        "INSERT INTO orchestrator.tasks (type, priority, payload) SELECT 'large', 25, %s::jsonb"
        " FROM generate_series(1, %s)",
        [json.dumps(payload), count],
    )


def most_held(app: Orchestrator) -> int:
    """Run all tasks. Return the most bytes of payloads that the worker held at any time, as its handlers saw it."""
    most = 0

    @app.task(name="small")
    async def small() -> None: ...

    @app.task(name="large")
    async def large(text: str) -> None:
        nonlocal most
        most = max(most, sum(held.task.payload.__sizeof__() for held in worker._ledger.held()))

    worker = app.worker(concurrency=20, until_empty=True)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await worker.run()

    asyncio.run(run())
    return most


def noise(count: int, first: str = "") -> dict[str, str]:
    """Return a payload that does not compress."""
    return {"text": first + secrets.token_hex(count // 2)}


def test_large_payloads_after_small_ones_do_not_fill_the_memory(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The size of the small ones says nothing about the large ones."""
    fill(connection, noise(192_000), 300)

    assert most_held(app) <= HELD_BYTES_MAX
    assert {"completed": SMALL + 300} == statuses(connection)


@pytest.mark.long
def test_wide_characters_count_as_what_they_take(app: Orchestrator, connection: psycopg.Connection) -> None:
    """One character beyond the first 65,536 makes four bytes of each other one."""
    # Fewer are enough: each takes four times as much.
    fill(connection, noise(192_000, first="\U0001f600"), 200)

    assert most_held(app) <= HELD_WIDE_BYTES_MAX
    assert {"completed": SMALL + 200} == statuses(connection)
