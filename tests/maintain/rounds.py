"""A round of a duty as the leader runs it: in a transaction of its own, with limits; and what such a round reads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg

from orchestrator.postgres.session import SETTINGS

PUT_OFF_MAX = 20
Duty = Callable[[psycopg.Connection], bool]

READ = """
SELECT
    (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relid = %(table)s::regclass),
    (
        SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))
        FROM pg_index AS i WHERE i.indrelid = %(table)s::regclass
    ),
    ARRAY(
        SELECT i.indexrelid::regclass::text FROM pg_index AS i
        WHERE i.indrelid = %(table)s::regclass AND pg_stat_get_xact_numscans(i.indexrelid) > 0
        ORDER BY 1
    )
"""


def do(connection: psycopg.Connection, duty: Duty) -> bool:
    """Do one round on a session with a worker's settings."""
    connection.execute(SETTINGS)
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = '5s'")
        return duty(connection)


def do_all(connection: psycopg.Connection, duty: Duty, *, at_most: int = 100) -> int:
    """Do rounds until nothing is left. Return their number."""
    for n in range(1, at_most + 1):
        if not do(connection, duty):
            return n
    raise AssertionError(f"not at its end after {at_most} rounds")


def do_at_once(database_url: str, duty: Duty, *, leaders: int = 2) -> None:
    """Let several leaders do the same until nothing is left."""

    def lead(_: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            # A leader that has waited for a lock for too long puts the round off.
            for _ in range(PUT_OFF_MAX):
                with suppress(psycopg.errors.LockNotAvailable):
                    do_all(connection, duty)
                    return
        raise AssertionError(f"put off {PUT_OFF_MAX} times")

    with ThreadPoolExecutor(leaders) as pool:
        list(pool.map(lead, range(leaders)))


def reads(connection: psycopg.Connection, duty: Duty, table: str) -> tuple[int, int, list[str]]:
    """Do one round. Return how many rows of a table were read without an index, and how many entries of which
    indexes."""
    connection.execute(SETTINGS)
    with connection.transaction():
        duty(connection)
        row = connection.execute(READ, {"table": f"orchestrator.{table}"}).fetchone()
    assert row is not None
    whole, entries, indexes = row
    return int(whole), int(entries), [name.removeprefix("orchestrator.") for name in indexes]
