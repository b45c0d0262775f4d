"""The process of a producer: it enqueues once, in one of the ways, and writes the answer to its log, durably. It writes
`begun` first, so a log without an answer means that it died."""

import os
from collections.abc import Callable
from contextlib import suppress

import psycopg

from orchestrator import Orchestrator
from orchestrator.errors import DatabaseUnavailable, EnqueueInDoubt

SET_SIZE = 3
ORDER = "INSERT INTO points.orders (key) VALUES (%s)"


class RollBack(Exception):
    """Raised to roll back the caller's transaction."""


def alone(url: str, key: str) -> None:
    """In a transaction of its own, with a key."""
    app = opened(url)
    app.enqueue("point.plain", {}, queue="made", key=key)
    app.close()


def as_set(url: str, key: str) -> None:
    """As a set, all or nothing, each task with a key."""
    app = opened(url)
    app.enqueue_many(
        [app.call("point.plain", {}, queue="made", key=f"{key}-{n}") for n in range(SET_SIZE)],
    )
    app.close()


def within(url: str, key: str) -> None:
    """In the caller's transaction, beside a row of the caller's."""
    app = opened(url)
    with psycopg.connect(url) as connection:
        connection.execute(ORDER, [key])
        app.enqueue("point.plain", {}, queue="made", key=key, using=connection)


def in_savepoint(url: str, key: str) -> None:
    """In a savepoint of the caller's transaction."""
    app = opened(url)
    with psycopg.connect(url) as connection:
        connection.execute(ORDER, [key])
        with connection.transaction():
            app.enqueue("point.plain", {}, queue="made", key=key, using=connection)


def undone(url: str, key: str) -> None:
    """In the caller's transaction, which is rolled back."""
    app = opened(url)
    with suppress(RollBack), psycopg.connect(url) as connection:
        connection.execute(ORDER, [key])
        app.enqueue("point.plain", {}, queue="made", key=key, using=connection)
        raise RollBack


def in_sql(url: str, key: str) -> None:
    """In plain SQL, with the function."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT orchestrator.enqueue('point.plain', '{}', queue => 'made', key => %s)", [key]
        )


def opened(url: str) -> Orchestrator:
    """Return an application that only enqueues. A short wait for the pool, because that is not tested here."""
    return Orchestrator(url, pool_timeout_seconds=5.0)


KINDS: dict[str, Callable[[str, str], None]] = {
    "alone": alone,
    "as a set": as_set,
    "within": within,
    "in a savepoint": in_savepoint,
    "undone": undone,
    "in SQL": in_sql,
}


def produce(kind: str, url: str, key: str) -> None:
    """Enqueue, and report the result: acknowledged, in doubt, refused, or broken (the driver's own error)."""
    say("begun")
    try:
        KINDS[kind](url, key)
    except EnqueueInDoubt:
        say("doubt")
    except DatabaseUnavailable as error:
        say(f"refused {error}")
    except psycopg.OperationalError as error:
        say(f"broken {error}")
    else:
        say("acknowledged")


def say(word: str) -> None:
    os.write(1, f"{word.splitlines()[0]}\n".encode())
    os.fsync(1)
