"""A recorded failure contains no value of a row, although PostgreSQL's errors quote rows. This holds for any driver."""

import asyncio
import importlib
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
import sqlalchemy

from orchestrator.execute import error_text
from tests.security.canary import hatch

# importlib, because these packages have no types.
asyncpg = importlib.import_module("asyncpg")
psycopg2 = importlib.import_module("psycopg2")

WORD = hatch()["payload"]
PICKY = "CREATE TABLE picky (word text CONSTRAINT shortness CHECK (length(word) < 3))"


def by_psycopg(url: str) -> None:
    """Violate the constraint."""
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO picky VALUES (%s)", [WORD])


def by_psycopg2(url: str, statement: str = "INSERT INTO picky VALUES (%s)") -> None:
    """Violate the constraint."""
    with closing(psycopg2.connect(url)) as connection:
        connection.cursor().execute(statement, [WORD])


def bound_by_the_client(url: str) -> None:
    """Send a wrong statement that contains the parameter's value, as Django's cursors send it."""
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("INSERT INTO picky SELECT %s AS word, shortness", [WORD])


def bound_by_psycopg2(url: str) -> None:
    """Send a wrong statement that contains the parameter's value."""
    by_psycopg2(url, "INSERT INTO picky SELECT %s AS word, shortness")


def in_a_function(url: str) -> None:
    """Run a wrong statement that a function builds."""
    words = psycopg.sql.SQL("SELECT {}, shortness FROM picky").format(WORD).as_string()
    with psycopg.connect(url) as connection:
        connection.execute(psycopg.sql.SQL("DO $$ BEGIN EXECUTE {}; END $$").format(words))


def by_sqlalchemy(url: str) -> None:
    """Violate the constraint."""
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO picky VALUES (:word)"), {"word": WORD})
    finally:
        engine.dispose()


def by_asyncpg(url: str) -> None:
    """Violate the constraint."""

    async def insert() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("INSERT INTO picky VALUES ($1)", WORD)
        finally:
            await connection.close()

    asyncio.run(insert())


def wrapped(url: str) -> None:
    """Raise another exception from the database's error."""
    try:
        by_psycopg(url)
    except psycopg.Error as error:
        raise LookupError("no room") from error


def beside(url: str) -> None:
    """Raise another exception while the database's error is handled."""
    try:
        by_psycopg(url)
    except psycopg.Error:
        raise LookupError("no room")  # noqa: B904 - the context is the point


def in_a_group(url: str) -> None:
    """Raise the database's error in an exception group."""
    try:
        by_psycopg(url)
    except psycopg.Error as error:
        raise ExceptionGroup("several", [KeyError("x"), error]) from None


class Stubborn(Exception):
    """An exception with an attribute that cannot be set."""

    @property
    def hide_parameters(self) -> bool:
        """Return False."""
        return False


def stubborn(url: str) -> None:
    """Raise `Stubborn` from the database's error."""
    try:
        by_psycopg(url)
    except psycopg.Error as error:
        raise Stubborn from error


@pytest.mark.parametrize(
    "way",
    [
        by_psycopg,
        by_psycopg2,
        bound_by_the_client,
        bound_by_psycopg2,
        in_a_function,
        by_sqlalchemy,
        by_asyncpg,
        wrapped,
        beside,
        in_a_group,
        stubborn,
    ],
)
def test_a_failure_shows_no_row(
    way: Callable[[str], None], connection: psycopg.Connection, database_url: str
) -> None:
    """Message and traceback do not contain the row. The traceback names the constraint."""
    connection.execute(PICKY)
    with pytest.raises(Exception) as caught:
        way(database_url)

    found = error_text.of(caught.value)

    assert WORD not in found.message + found.traceback
    assert "shortness" in found.traceback


def test_text_that_quotes_nothing_stays() -> None:
    """The handler's own text stays, because it may be the operator's only clue."""
    error = ValueError("two\nlines: DETAIL and CONTEXT, and\n  DETAIL of them")

    assert str(error) == error_text.of(error).message


class Declined(Exception):
    """An exception as in web frameworks: the message is in `detail`."""

    def __init__(self, detail: str) -> None:
        self.detail = detail

    def __str__(self) -> str:
        return f"402: {self.detail}"


def test_the_detail_of_another_kind_of_error_stays() -> None:
    """Only a database's DETAIL may quote a row."""
    error = Declined("card declined")

    assert "402: card declined" == error_text.of(error).message
    assert "card declined" == error.detail
