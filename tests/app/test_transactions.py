"""Enqueue inside the caller's transaction. What holds for every kind of connection is in tests/producers."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import rows, sql
from psycopg.pq import TransactionStatus

from orchestrator import Orchestrator
from tests.worker.running import value

FACTORIES: dict[str, Any] = {
    "tuple": rows.tuple_row,
    "dict": rows.dict_row,
    "namedtuple": rows.namedtuple_row,
    "scalar": rows.scalar_row,
    "class": rows.class_row(dict),
    "own": lambda _cursor: lambda _values: "nothing of use",
}


@pytest.fixture
def double(app: Orchestrator) -> Any:
    """A declared task."""

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    return double


def count(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM orchestrator.tasks"))


@pytest.mark.parametrize("factory", FACTORIES)
async def test_the_shape_of_the_callers_rows_does_not_matter(
    double: Any, database_url: str, connection: psycopg.Connection, factory: str
) -> None:
    """On a connection of either colour and its cursors: the ids are ours, the factory is left as it was."""
    shape = FACTORIES[factory]
    with psycopg.connect(database_url, row_factory=shape) as mine, mine.cursor() as cursor:
        ids = [double.using(held).enqueue(number=1).id for held in (mine, cursor)]
    async with (
        await psycopg.AsyncConnection.connect(database_url, row_factory=shape) as theirs,
        theirs.cursor() as its_cursor,
    ):
        ids += [(await double.using(held).aenqueue(number=1)).id for held in (theirs, its_cursor)]

    assert (shape, shape) == (mine.row_factory, theirs.row_factory)
    assert [(task_id,) for task_id in ids] == connection.execute(
        "SELECT id FROM orchestrator.tasks ORDER BY id"
    ).fetchall()


def test_in_autocommit_a_task_is_committed_at_once(
    double: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """And in a transaction() block with the block."""
    with psycopg.connect(database_url, autocommit=True) as mine:
        double.using(mine).enqueue(number=1)
        assert (1, TransactionStatus.IDLE, True) == (
            count(connection),
            mine.info.transaction_status,
            mine.autocommit,
        )
        with mine.transaction():
            double.using(mine).enqueue(number=2)
            assert 1 == count(connection)

    assert 2 == count(connection)


@pytest.mark.parametrize("ending", ["commit", "rollback", "savepoint"])
def test_no_worker_is_woken_for_a_rolled_back_task(
    double: Any, database_url: str, connection: psycopg.Connection, ending: str
) -> None:
    """A rollback, of all or of a savepoint, leaves no NOTIFY; a commit sends one to the sleeper."""
    connection.execute(
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, idle_until)"
        " VALUES (gen_random_uuid(), 'asleep', 1, '0', '{default}', 1, now() + interval '1 hour')"
    )
    connection.execute("LISTEN orchestrator")
    with psycopg.connect(database_url) as mine:
        if ending == "savepoint":
            with mine.transaction(force_rollback=True):
                double.using(mine).enqueue(number=1)
        else:
            double.using(mine).enqueue(number=1)
        mine.rollback() if ending == "rollback" else mine.commit()
        # Sent after it, so heard after it.
        mine.execute("SELECT pg_notify('orchestrator', 'the end')")

    heard: list[str] = []
    for notification in connection.notifies(timeout=30):
        heard.append(notification.payload)
        if notification.payload == "the end":
            break

    assert (["default"] if ending == "commit" else []) + ["the end"] == heard


def test_a_callers_own_errors_stay_its_own(double: Any, database_url: str) -> None:
    """A closed connection is psycopg's to complain of; nothing is dressed up as ours."""
    mine = psycopg.connect(database_url)
    mine.close()

    with pytest.raises(psycopg.OperationalError, match="closed"):
        double.using(mine).enqueue(number=1)


@pytest.mark.parametrize("isolation", list(psycopg.IsolationLevel), ids=str)
def test_every_isolation_level_will_do(
    double: Any, database_url: str, connection: psycopg.Connection, isolation: psycopg.IsolationLevel
) -> None:
    """And a read-only transaction is told by PostgreSQL itself."""
    with psycopg.connect(database_url) as mine:
        mine.isolation_level = isolation
        double.using(mine, key="once").enqueue(number=1)
        mine.commit()
        assert not double.using(mine, key="once").enqueue(number=1).created
        mine.commit()
        mine.read_only = True
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            double.using(mine).enqueue(number=1)

    assert 1 == count(connection)


def test_the_search_path_and_settings_of_the_caller_do_not_matter(
    double: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """A pipeline, another schema first, a strange interval style, a tight timeout that is kept."""
    with psycopg.connect(
        database_url, options="-c search_path=pg_temp -c IntervalStyle=sql_standard"
    ) as mine:
        mine.execute("SET DateStyle = 'SQL, DMY'")
        mine.execute("SET TimeZone = 'Asia/Kathmandu'")
        enqueued = double.using(mine, timeout=90, delay=3600).enqueue(number=1)
        with mine.pipeline():
            double.using(mine).enqueue(number=2)
        assert "pg_temp" == value(mine, "SHOW search_path")

    timeout, ahead = connection.execute(
        "SELECT date_part('epoch', timeout), date_part('epoch', run_at - created_at)"
        " FROM orchestrator.tasks WHERE id = %s",
        [enqueued.id],
    ).fetchone() or (0, 0)
    assert (90, 3600) == (timeout, round(ahead))
    assert 2 == count(connection)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        (lambda url: "postgresql://me:secret@host/db", "not a URL"),
        (lambda url: 7, "not int"),
        (lambda url: psycopg, "not module"),
    ],
    ids=["an URL", "a number", "a module"],
)
def test_a_value_that_is_no_connection_is_refused_at_once(
    double: Any, database_url: str, held: Callable[[str], object], sentence: str
) -> None:
    """At the call, and the error names what is accepted."""
    with pytest.raises(TypeError, match=sentence):
        double.using(held(database_url))


def test_the_wrong_colour_is_refused_with_the_right_one(double: Any, database_url: str) -> None:
    """A synchronous connection would block the loop; an asynchronous one cannot be waited for in a thread."""

    async def main(mine: psycopg.Connection) -> None:
        with pytest.raises(TypeError, match="synchronous and would block the event loop; use enqueue"):
            await double.using(mine).aenqueue(number=1)
        async with await psycopg.AsyncConnection.connect(database_url) as theirs:
            with pytest.raises(TypeError, match="is asynchronous; use aenqueue"):
                double.using(theirs).enqueue(number=1)

    with psycopg.connect(database_url) as mine:
        asyncio.run(main(mine))


def test_a_role_that_may_only_produce_can_enqueue(
    double: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """What the Python door needs is what the role orchestrator_producer has."""
    with psycopg.connect(database_url) as mine:
        mine.execute(sql.SQL("SET ROLE orchestrator_producer"))
        enqueued = double.using(mine, key="k", tags=["a"], metadata={"b": 1}, delay=0, timeout=3).enqueue(
            number=1
        )
        assert not double.using(mine, key="k").enqueue(number=1).created

    assert [(enqueued.id,)] == connection.execute("SELECT id FROM orchestrator.tasks").fetchall()
