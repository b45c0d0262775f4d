"""The database that is examined, and the result of a check."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import psycopg

Verdict = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: the facts, the advice, and the statement that follows the advice or shows more."""

    name: str
    verdict: Verdict
    says: str
    advice: str | None = None
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """A database, and the means to examine it. `another` opens one more session on it, as a worker would;
    `faults_of_claim` returns the faults in the plans of claims; `now` is this host's clock."""

    connection: psycopg.Connection[Any]
    another: Callable[[], psycopg.Connection[Any]]
    faults_of_claim: Callable[[psycopg.Connection[Any]], list[str]]
    now: Callable[[], float] = time.time

    def rows(self, statement: bytes, given: dict[str, Any] | None = None) -> list[Any]:
        """Run a statement and return its rows."""
        # Empty parameters, not None: these statements write a percent sign as %%.
        return self.connection.execute(statement, given or {}).fetchall()

    def row(self, statement: bytes, given: dict[str, Any] | None = None) -> Any:
        """Run a statement and return its only row."""
        (found,) = self.rows(statement, given)
        return found


# examine.py names the finding after the function of its check; until then it has no name.


def ok(says: str) -> Finding:
    return Finding("", "ok", says)


def warn(says: str, advice: str, statement: str | None = None) -> Finding:
    return Finding("", "warn", says, advice, statement)


def fail(says: str, advice: str, statement: str | None = None) -> Finding:
    return Finding("", "fail", says, advice, statement)


def skipped(says: str, advice: str | None = None, statement: str | None = None) -> Finding:
    return Finding("", "skipped", says, advice, statement)


# A finding names at most this many of a list.
NAMED_MAX = 5


def named(names: list[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
