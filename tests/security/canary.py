"""Make secrets, and search for them in all places where they must not be.

Each part of a task gets a unique word. So a word in the wrong place shows which part leaked.
"""

import secrets
from collections.abc import Iterable, Mapping

import psycopg
from psycopg import sql

from tests.security.rights import objects

KINDS = ("payload", "result", "exception", "key", "metadata", "tag", "progress", "password")
LEAVES = "tasks_done_YYYYMMDD"


def hatch() -> dict[str, str]:
    """Return a new word for each kind of secret."""
    return {kind: f"canary{kind}{secrets.token_hex(6)}" for kind in KINDS}


def columns_with(connection: psycopg.Connection, word: str) -> set[str]:
    """Return each column of a table or view that contains a word. The daily partitions count as tasks_done."""
    found = set()
    for thing in objects(connection):
        if thing.kind != "column" or thing.name == LEAVES:
            continue
        statement = sql.SQL("SELECT count(*) FROM orchestrator.{} WHERE {}::text LIKE %s").format(
            sql.Identifier(thing.name), sql.Identifier(thing.column)
        )
        row = connection.execute(statement, [f"%{word}%"]).fetchone()
        if row is not None and row[0]:
            found.add(f"{thing.name}.{thing.column}")
    return found


def leaked(
    places: Mapping[str, str], words: Mapping[str, str], *, allowed: Iterable[tuple[str, str]] = ()
) -> list[str]:
    """Name each place that contains a word, except the allowed pairs of place and kind."""
    known = set(allowed)
    return [
        f"{kind} in {place}"
        for place, text in places.items()
        for kind, word in words.items()
        if word in text and (place, kind) not in known
    ]
