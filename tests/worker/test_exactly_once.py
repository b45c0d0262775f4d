"""Processes that are killed, stopped and cut off from their server, again and again: each task leaves one entry.

Half of the handlers run on the loop and half in threads. Without a transaction of their own this fails: a handler
whose worker is killed after its write writes again.
"""

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests import servers
from tests.patience import eventually
from tests.tiers import long
from tests.worker.ledger import TABLE, one_each
from tests.worker.processes import worker
from tests.worker.running import value

TOTAL = 600
ENQUEUE = """
    INSERT INTO orchestrator.tasks (type, max_attempts)
    SELECT CASE n %% 2 WHEN 0 THEN 'shop.book' ELSE 'shop.book_in_thread' END, 1000 FROM generate_series(1, %s) AS n
"""
HAVE: dict[str, str] = {"ORCHESTRATOR_TRANSACTION_POOL_SIZE": "5"}


def booked(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM ledger"))


@pytest.mark.parametrize(("kills", "total"), [(2, TOTAL // 2), long(4, TOTAL)])
def test_kill_9_leaves_one_entry_a_task(
    database_url: str, connection: psycopg.Connection, tmp_path: Path, kills: int, total: int
) -> None:
    """At any point: before the entry, between entry and completion, and during the commit."""
    connection.execute(TABLE)
    connection.execute(ENQUEUE, [total])
    for number in range(1, kills + 1):
        with worker(database_url, tmp_path / f"{number}.log", **HAVE) as victim:
            enough = number * total // (kills + 2)
            eventually(lambda enough=enough: booked(connection) >= enough, "some are booked")  # type: ignore[misc]
            victim.signal(signal.SIGKILL)
            victim.wait()
    with worker(database_url, tmp_path / "last.log", "--until-empty", **HAVE) as last:
        assert 0 == last.wait(), last.log

    assert one_each(connection, total)
    assert 0 < value(connection, "SELECT count(*) FROM orchestrator.attempts WHERE outcome = 'lost'")


@pytest.mark.long
def test_workers_that_come_and_go_leave_one_entry_a_task(
    database_url: str, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Two at a time, stopped at random, hurried at random, each followed by another."""
    connection.execute(TABLE)
    connection.execute(ENQUEUE, [TOTAL])
    dice = random.Random(7)  # noqa: S311 - no secret
    for number in range(1, 4):
        with (
            worker(database_url, tmp_path / f"{number}a.log", **HAVE) as one,
            worker(database_url, tmp_path / f"{number}b.log", **HAVE) as other,
        ):
            eventually(
                lambda: one.has_logged("worker started") and other.has_logged("worker started"), "both serve"
            )
            enough = number * TOTAL // 5
            eventually(lambda enough=enough: booked(connection) >= enough, "some are booked")  # type: ignore[misc]
            for process in (one, other):
                for _ in range(dice.choice((1, 2))):
                    process.signal(signal.SIGTERM)
                assert 0 == process.wait(), process.log
    with worker(database_url, tmp_path / "last.log", "--until-empty", **HAVE) as last:
        assert 0 == last.wait(), last.log

    assert one_each(connection, TOTAL)
    assert [] == connection.execute("SELECT FROM orchestrator.attempts WHERE outcome <> 'failed'").fetchall()


@pytest.mark.parametrize(
    ("mode", "total"), [("immediate", 100), long("immediate", TOTAL), long("fast", TOTAL)]
)
def test_a_restart_of_the_server_leaves_one_entry_a_task(
    mode: servers.StopMode, total: int, tmp_path: Path
) -> None:
    """The server stops under load, or crashes: committed writes stay, and their tasks do not run again."""
    with servers.private() as server:
        ask(server, lambda connection: connection.execute(TABLE))
        ask(server, lambda connection: connection.execute(ENQUEUE, [total]))
        with worker(server.url(), tmp_path / "log", **HAVE) as process:
            for number in range(1, 3):
                enough = number * total // 4
                eventually(
                    lambda enough=enough: ask(server, booked) >= enough,  # type: ignore[misc]
                    "some are booked",
                )
                server.restart(mode)
            eventually(lambda: ask(server, lambda c: one_each(c, total)), "all are booked")
            process.signal(signal.SIGTERM)
            assert 0 == process.wait(), process.log
        assert ask(server, lambda connection: one_each(connection, total))


def ask(server: servers.Server, question: Callable[[psycopg.Connection], object]) -> int:
    """Run a query on a session of its own; 0 if there is no session."""
    with suppress(psycopg.OperationalError), psycopg.connect(server.url(), autocommit=True) as connection:
        answer = question(connection)
        return answer if isinstance(answer, int) else 0
    return 0
