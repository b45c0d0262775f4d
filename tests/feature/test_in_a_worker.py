"""A worker with a feature: claims of its tasks, what follows the ends of their leases, and faults of its parts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from orchestrator.feature import Feature, Host, Parts
from orchestrator.finish import LeaseEnds
from orchestrator.postgres import connect
from orchestrator.postgres.session import Connection
from orchestrator.task.claimed import Claimed
from orchestrator.worker import features
from tests.feature.conftest import LANE, LIMIT
from tests.feature.lane_limits import NAME, WITHOUT_NET, LaneLimits, install
from tests.worker.running import recorded, statuses, until, value, working

Wire = Callable[..., None]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Write the line of wiring for these features."""
    return lambda *wired: monkeypatch.setattr(features, "FEATURES", wired)


class Counted:
    """How many handlers run at once, at most, and in which order they began."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.begun: list[str] = []

    async def run(self, name: str, seconds: float) -> None:
        self.begun.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1


def all_are_completed(connection: psycopg.Connection) -> bool:
    return set(statuses(connection)) == {"completed"}


def is_completed(status: Callable[[], str]) -> bool:
    return status() == "completed"


def counters(connection: psycopg.Connection) -> list[Any]:
    """What is still taken, not yet folded, and was above its limit."""
    connection.execute("SELECT lane_limits.fold()")
    return [
        value(connection, "SELECT sum(running) FROM lane_limits.limits"),
        value(connection, "SELECT count(*) FROM orchestrator.permits_returned"),
        value(connection, "SELECT count(*) FROM lane_limits.above"),
    ]


@pytest.mark.parametrize("own_transaction", [False, True], ids=["outbox", "own transaction"])
def test_the_companion_brings_permits_back_to_use(
    app: Orchestrator,
    limited: psycopg.Connection,
    wire: Wire,
    own_transaction: bool,
) -> None:
    """Nothing else can: no poll comes, and the feature has no duty."""
    wire(WITHOUT_NET)
    counted = Counted()

    @app.task(name="work")
    async def work(context: Context) -> None:
        await counted.run("work", 0.2)
        if own_transaction:
            async with context.transaction():
                pass

    work.using(metadata={"lane": LANE}).enqueue_many([{}] * 8)

    async def main() -> None:
        async with working(app):
            await until(lambda: all_are_completed(limited), "all have run")

    asyncio.run(main())

    assert LIMIT == counted.most
    assert [0, 0, 0] == counters(limited)


def test_an_idle_companion_has_no_connection(
    app: Orchestrator, limited: psycopg.Connection, wire: Wire
) -> None:
    """Plain tasks end leases that held nothing."""
    wire(Feature(NAME, lambda host: Parts(companion=LaneLimits(host))))

    @app.task(name="work")
    async def work() -> None: ...

    async def main() -> None:
        async with working(app):
            work.enqueue_many([{}] * 50)
            await until(lambda: all_are_completed(limited), "all have run")
            assert 0 == value(
                limited,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'orchestrator lane limits'",
            )

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0.0, 0.05], ids=["claimed far ahead", "slot by slot"])
def test_plain_tasks_and_those_of_a_source_take_turns(
    app: Orchestrator, limited: psycopg.Connection, wire: Wire, seconds: float
) -> None:
    """Neither waits for the other's backlog to end, however many are claimed ahead."""
    wire(WITHOUT_NET)
    counted = Counted()
    limited.execute("UPDATE lane_limits.limits SET max_running = 1000000")
    number = 1500 if not seconds else 200

    @app.task(name="plain")
    async def plain() -> None:
        await counted.run("plain", seconds)

    @app.task(name="laned")
    async def laned() -> None:
        await counted.run("laned", seconds)

    plain.enqueue_many([{}] * number)
    laned.using(metadata={"lane": LANE}).enqueue_many([{}] * number)

    async def main() -> None:
        async with working(app, concurrency=10 if seconds else 20):
            await until(lambda: all_are_completed(limited), "all have run")

    asyncio.run(main())

    half = Counter(counted.begun[:number])
    assert min(half["plain"], half["laned"]) > number // 4, half
    assert {"plain": number, "laned": number} == Counter(counted.begun)


class Broken(LaneLimits):
    """Fails in every way, the first times."""

    def __init__(self, host: Host, fault: Callable[[Connection], None]) -> None:
        super().__init__(host)
        self.fault = fault
        self.times = 0

    async def claim(
        self,
        connection: Connection,
        *,
        lease: int,
        worker_id: UUID,
        queues: Sequence[str],
        batch_size: int,
    ) -> list[Claimed]:
        """Claim, and fail then."""
        claimed = await super().claim(
            connection, lease=lease, worker_id=worker_id, queues=queues, batch_size=batch_size
        )
        self.fail(connection, claimed)
        return claimed

    async def follow(self, connection: Connection, ends: LeaseEnds) -> float | None:
        """Follow, and fail then."""
        again = await super().follow(connection, ends)
        self.fail(connection, ends.holds)
        return again

    def fail(self, connection: Connection, worth: object) -> None:
        if worth and self.times < 2:
            self.times += 1
            self.fault(connection)


def raises(_connection: Connection) -> None:
    raise ValueError("a fault of the feature")


@pytest.mark.parametrize(
    ("fault", "told"), [(raises, events.DutyFailed), (connect.hang_up, events.ConnectionLost)]
)
def test_a_part_that_fails_costs_neither_a_task_nor_a_permit(
    app: Orchestrator,
    limited: psycopg.Connection,
    wire: Wire,
    fault: Callable[[Connection], None],
    told: type[events.Event],
) -> None:
    """What was claimed goes back uncharged, and plain tasks go on."""
    made: list[Broken] = []

    def join(host: Host) -> Parts:
        made.append(Broken(host, fault))
        return Parts(source=made[0], companion=made[0])

    wire(Feature(NAME, join))

    @app.task(name="work")
    async def work() -> None: ...

    async def main() -> None:
        async with working(app):
            work.using(metadata={"lane": LANE}).enqueue_many([{}] * 10)
            # There is no duty, and no poll soon: what a failure puts off is done when there is more to do.
            while not all_are_completed(limited):
                ended = work.enqueue().status
                await until(partial(is_completed, ended), "a plain task has run")

    with recorded(told) as seen:
        asyncio.run(main())

    assert 2 == made[0].times <= len(seen)
    assert [0, 0, 0] == counters(limited)
    assert 1 == value(limited, "SELECT max(attempt) FROM orchestrator.tasks")


def test_a_feature_declares_at_the_start_of_a_worker(
    app: Orchestrator, connection: psycopg.Connection, wire: Wire
) -> None:
    """On the worker's connection, before it serves."""
    install(connection, {})

    def declare(session: psycopg.Connection[Any]) -> None:
        session.execute("INSERT INTO lane_limits.limits VALUES (1, 5) ON CONFLICT DO NOTHING")

    wire(Feature(NAME, lambda _host: Parts(declare=declare)))

    @app.task(name="work")
    async def work() -> None: ...

    async def main() -> None:
        async with working(app):
            work.enqueue()
            await until(lambda: all_are_completed(connection), "it serves")

    asyncio.run(main())

    assert 5 == value(connection, "SELECT max_running FROM lane_limits.limits WHERE hold = 1")
