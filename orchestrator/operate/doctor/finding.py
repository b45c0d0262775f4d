"""What is examined, and what a check finds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import psycopg

Verdict = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found: what is so, what to do about it, and the statement that does it or shows more."""

    name: str
    verdict: Verdict
    says: str
    advice: str | None = None
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """A database, and what it takes to examine it. `another` opens one more session on it, as a worker would;
    `faults_of_claim` tells what is wrong with how claims are planned there; `now` is this host's clock."""

    connection: psycopg.Connection[Any]
    another: Callable[[], psycopg.Connection[Any]]
    faults_of_claim: Callable[[psycopg.Connection[Any]], list[str]]
    now: Callable[[], float] = time.time

    def rows(self, statement: bytes, given: dict[str, Any] | None = None) -> list[Any]:
        """Ask the database."""
        # An empty set of parameters, not None: %% is a sign of percent in all of these.
        return self.connection.execute(statement, given or {}).fetchall()

    def row(self, statement: bytes, given: dict[str, Any] | None = None) -> Any:
        """Ask the database for the one row that there is."""
        (found,) = self.rows(statement, given)
        return found


# A check is named after its function; until then its finding has no name.


def ok(says: str) -> Finding:
    return Finding("", "ok", says)


def warn(says: str, advice: str, statement: str | None = None) -> Finding:
    return Finding("", "warn", says, advice, statement)


def fail(says: str, advice: str, statement: str | None = None) -> Finding:
    return Finding("", "fail", says, advice, statement)


def skipped(says: str, advice: str | None = None, statement: str | None = None) -> Finding:
    return Finding("", "skipped", says, advice, statement)


# Of what may be many a few are named.
NAMED_MAX = 5


def named(names: list[str]) -> str:
    """Return a few of the names, and how many more there are."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
