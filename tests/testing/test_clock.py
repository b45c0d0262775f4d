"""A test moves the database's clock, and no other code can move it by mistake."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from orchestrator import testing
from orchestrator.testing import TaskCounts
from orchestrator.testing.clock import ClockRefused, stopped
from tests.servers import url_of
from tests.testing.tasks import Shop

CLOCK = "SELECT pg_get_functiondef('orchestrator.clock'::regproc), to_regclass('orchestrator.test_clock')"


def test_the_clock_stands_and_moves(shop: Shop) -> None:
    """A task that is due tomorrow runs after the clock has moved by a day."""
    moment = datetime(2031, 5, 6, tzinfo=UTC)
    with testing.frozen_clock(shop.app, at=moment) as clock:
        shop.welcome.using(delay="1d").enqueue(user_id=1)
        assert (moment, TaskCounts()) == (clock.now, testing.run_tasks(shop.app))

        clock.advance(days=1)

        assert moment + timedelta(days=1) == clock.now
        assert TaskCounts(completed=1) == testing.run_tasks(shop.app)


def test_the_clock_goes_on_afterwards(shop: Shop, database_url: str, connection: psycopg.Connection) -> None:
    """The schema's own function is back, also after an error, and no table is left."""
    before = connection.execute(CLOCK).fetchone()
    with pytest.raises(ZeroDivisionError), testing.frozen_clock(database_url):
        raise ZeroDivisionError(before != connection.execute(CLOCK).fetchone())

    assert before == connection.execute(CLOCK).fetchone()
    assert None is (before and before[1])


def test_a_clock_that_a_killed_test_left_stopped_can_be_frozen_again(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The next use starts at the present, and restores the schema's function."""
    before = connection.execute(CLOCK).fetchone()
    stopped(connection).set(datetime(2031, 1, 1, tzinfo=UTC))

    with testing.frozen_clock(database_url) as clock:
        assert clock.now < datetime(2031, 1, 1, tzinfo=UTC)
    assert before == connection.execute(CLOCK).fetchone()


def test_the_clock_of_a_database_without_test_in_its_name_is_refused(
    administrator: psycopg.Connection, template_database: str, server_url: str
) -> None:
    """Only `any_name=True` allows it."""
    name = f"shop_{uuid4().hex}"
    administrator.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, (name, template_database)))
    )
    try:
        with (
            pytest.raises(ClockRefused, match="does not hold 'test'"),
            testing.frozen_clock(url_of(server_url, name)),
        ):
            pass
        with testing.frozen_clock(url_of(server_url, name), any_name=True):
            pass
    finally:
        administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_role_that_does_not_own_the_schema_gets_a_message(
    database_url: str, administrator: psycopg.Connection
) -> None:
    """It names the role, and says that the owner may."""
    role = f"clerk_{uuid4().hex}"
    administrator.execute(
        sql.SQL("CREATE ROLE {} LOGIN IN ROLE orchestrator_worker").format(sql.Identifier(role))
    )
    url = database_url.replace("user=postgres", f"user={role}").replace("postgres@", f"{role}@")
    try:
        with pytest.raises(ClockRefused, match=f"{role}.*the owner"), testing.frozen_clock(url):
            pass
    finally:
        administrator.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_moment_without_a_zone_is_refused(database_url: str) -> None:
    """Its meaning would depend on the session's time zone."""
    with testing.frozen_clock(database_url) as clock, pytest.raises(ValueError, match="time zone"):
        clock.set(datetime(2030, 1, 1))
