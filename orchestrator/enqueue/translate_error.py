"""Turn a database's refusal into our exception, whatever driver or framework wrapped it, without the payload.

SQLAlchemy prints the parameters of the statement that failed, and a server may quote them in DETAIL and CONTEXT. An
error of our own statement prints neither, even if it is only the cause of the exception that we raise.
"""

import re
from enum import Enum, auto
from typing import NamedTuple

from orchestrator.errors import (
    DatabaseUnavailable,
    EnqueueInDoubt,
    EnqueueRefused,
    OrchestratorError,
    PayloadRefused,
    SchemaError,
)
from orchestrator.postgres import quoting, transient_errors

PAYLOAD = "OR002"
NO_SCHEMA = frozenset({"3F000", "42883", "42P01", "42703"})
NOT_ALLOWED = "42501"
FAILED_TRANSACTION = "25P02"
# The server ended the session, or the connection broke, while the statement ran.
ENDED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
# Every driver has these names (PEP 249). Without an SQLSTATE, the connection failed.
BROKEN = frozenset({"OperationalError", "InterfaceError", "ConnectionError"})
LINKS_MAX = 10


class Lost(Enum):
    """What a broken connection means for the statement that was running."""

    IN_DOUBT = auto()
    """The statement was its own transaction, or the COMMIT: the server may have committed it."""
    NOTHING_THERE = auto()
    """The transaction was ours, and not committed yet."""
    THEIRS = auto()
    """The transaction is the caller's: the caller knows the driver's errors, and may try again."""


class Words(NamedTuple):
    """The server's error: never DETAIL, which may print a row."""

    sqlstate: str
    message: str
    hint: str | None


def translate_error(error: Exception, *, lost: Lost, first: int | None) -> Exception:
    """Return the exception to raise: ours if the database refused, otherwise the same one.

    `first`: the index that the statement's first item has in the whole set; None for a single task, which has none.
    """
    links = chain_of(error)
    words = next(filter(None, map(words_of, links)), None)
    hide_values(links)
    if words is None:
        return broken(error, lost) if any(map(is_broken, links)) else error
    if words.sqlstate in ENDED or words.sqlstate.startswith("08"):
        return broken(error, lost)
    if transient_errors.matches(words.sqlstate):
        # A caller that repeats its transactions looks for the driver's class.
        return error if lost is Lost.THEIRS else passing(words)
    return refusal(words, first)


def refusal(words: Words, first: int | None) -> OrchestratorError:
    """Return the exception for a refusal that another try would meet again."""
    item, message = item_of(words.message, first)
    if words.sqlstate in NO_SCHEMA:
        return SchemaError(
            "this database has no orchestrator schema, or an older one; run `orchestrator migrate`"
        )
    if words.sqlstate == PAYLOAD:
        found = re.fullmatch(r"((?:items\[\d+\]: )?the \w+) (.*)", message, re.DOTALL)
        where, reason = found.groups() if found else ("the payload", message)
        return PayloadRefused(where, reason, sqlstate=words.sqlstate, item=item)
    hint = words.hint
    if words.sqlstate == FAILED_TRANSACTION:
        message, hint = "this transaction has failed and accepts no more statements", "Roll it back first."
    if words.sqlstate == NOT_ALLOWED:
        hint = "To let this role enqueue: GRANT orchestrator_producer TO it."
    return EnqueueRefused(message, sqlstate=words.sqlstate, hint=hint, item=item)


def broken(error: Exception, lost: Lost) -> Exception:
    match lost:
        case Lost.IN_DOUBT:
            return EnqueueInDoubt()
        case Lost.NOTHING_THERE:
            return DatabaseUnavailable(
                "the connection broke before the set was committed: nothing of it was enqueued; try again"
            )
        case Lost.THEIRS:
            return error


def passing(words: Words) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"{words.message}: nothing was enqueued; try again")


def item_of(message: str, first: int | None) -> tuple[int | None, str]:
    """Turn the index in the statement into the index in the caller's set. Return it, and the message with it."""
    found = re.match(r"tasks\[(\d+)\]: ", message)
    if found is None:
        return None, message
    if first is None:
        return None, message[found.end() :]
    item = first + int(found[1])
    return item, f"items[{item}]: {message[found.end() :]}"


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that it wraps: SQLAlchemy keeps one as `orig`, Django as the cause."""
    links: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and len(links) < LINKS_MAX:
        links.append(found)
        found = getattr(found, "orig", None) or found.__cause__
    return links


def words_of(error: BaseException) -> Words | None:
    """Return the server's error, if this is the driver's own error or a close copy of it."""
    sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if not sqlstate:
        return None
    diagnostic = getattr(error, "diag", None)
    message = getattr(diagnostic, "message_primary", None) or first_line(error)
    # asyncpg's own error, under SQLAlchemy's copy of it, has the hint.
    hint = getattr(diagnostic, "message_hint", None) or getattr(error.__cause__, "hint", None)
    return Words(str(sqlstate), message, hint)


def is_broken(error: BaseException) -> bool:
    return (
        any(kind.__name__ in BROKEN for kind in type(error).__mro__)
        or type(error).__name__ == "DatabaseError"
    )


def hide_values(links: list[BaseException]) -> None:
    """Remove from the errors' text all after the server's message: it may quote the statement's parameters."""
    for link in links:
        quoting.hide_values(link)
        if link.args and isinstance(link.args[0], str):
            words = words_of(link)
            message = words.message if words else link.args[0].partition("\n")[0]
            link.args = (message, *link.args[1:])


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    # SQLAlchemy's asyncpg puts the class first: "<class '…'>: message".
    return lines[0].partition(">: ")[2] or lines[0]
