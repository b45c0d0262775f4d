"""Say a database's refusal in our words, whatever driver or framework wrapped it."""

import re
from typing import NamedTuple

import psycopg

from orchestrator.errors import EnqueueInDoubt, EnqueueRefused, PayloadRefused, SchemaError

PAYLOAD = "OR002"
NO_SCHEMA = frozenset({"3F000", "42883", "42P01"})
# The server ended the session, or the connection broke, with the statement on its way.
LOST = frozenset({"57P01", "57P02", "57P05"})


class Words(NamedTuple):
    """What the server said: never DETAIL, which may print a row."""

    sqlstate: str
    message: str
    hint: str | None


def told(error: Exception, *, in_doubt: bool, first: int | None) -> Exception:
    """Return the exception to raise: ours where the database refused, the same one where it is none of ours.

    `in_doubt`: the statement was a transaction of its own, so a lost connection may hide a commit. `first`: the index
    that the statement's first item has in the whole set; None for a single task, which has no index.
    """
    words = words_of(error)
    if words is None or words.sqlstate in LOST or words.sqlstate.startswith("08"):
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return EnqueueInDoubt() if in_doubt and lost else error
    if words.sqlstate in NO_SCHEMA:
        return SchemaError(
            "this database has no orchestrator schema, or an older one; run `orchestrator migrate`"
        )
    message = indexed(words.message, first)
    if words.sqlstate == PAYLOAD:
        where, _, reason = message.rpartition("the payload ")
        return PayloadRefused(f"{where}the payload", reason, sqlstate=words.sqlstate)
    if words.sqlstate.startswith("OR") or words.sqlstate[:2] in ("22", "23"):
        return EnqueueRefused(message, sqlstate=words.sqlstate, hint=words.hint)
    return error


def indexed(message: str, first: int | None) -> str:
    """Turn the index within the statement into the one within the caller's set."""
    found = re.match(r"tasks\[(\d+)\]: ", message)
    if found is None:
        return message
    prefix = "" if first is None else f"items[{first + int(found[1])}]: "
    return prefix + message[found.end() :]


def words_of(error: BaseException) -> Words | None:
    """Find the server's own error under its wrappers: SQLAlchemy keeps it as `orig`, Django as the cause."""
    found: BaseException | None = error
    # Ends: a chain of causes is finite, and the longest known has three links.
    for _ in range(5):
        if found is None:
            return None
        sqlstate = getattr(found, "sqlstate", None) or getattr(found, "pgcode", None)
        if sqlstate:
            said = getattr(found, "diag", None)
            message = getattr(said, "message_primary", None) or first_line(found)
            # asyncpg's own error, under SQLAlchemy's copy of it, has the hint.
            hint = getattr(said, "message_hint", None) or getattr(found.__cause__, "hint", None)
            return Words(str(sqlstate), message, hint)
        found = getattr(found, "orig", None) or found.__cause__
    return None


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    # SQLAlchemy's asyncpg puts the class first: "<class '…'>: message".
    return lines[0].partition(">: ")[2] or lines[0]
