"""An operator sets how long a queue keeps ended tasks."""

from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest

from tests.schema.rows import one, put, refusal


def test_given_periods_apply_and_others_stay(connection: psycopg.Connection) -> None:
    """The function returns the new periods."""
    call: LiteralString = "SELECT * FROM orchestrator.set_retention('default', {}, reason => 'disk')"
    first = connection.execute(call.format("keep_finished => '3 days'")).fetchone()
    second = connection.execute(call.format("keep_dead => '1 year'")).fetchone()

    assert (timedelta(days=3), timedelta(days=30)) == first
    assert (timedelta(days=3), timedelta(days=365)) == second
    assert second == connection.execute("SELECT keep_finished, keep_dead FROM orchestrator.queues").fetchone()


def test_a_change_of_retention_is_on_record(connection: psycopg.Connection) -> None:
    """The role, the reason, the old and the new period."""
    connection.execute("SELECT orchestrator.set_retention('default', '1 day', '2 days', 'disk is full')")

    record = connection.execute(
        "SELECT action, queue, reason, actor = session_user, details FROM orchestrator.audit"
    )
    was = {"keep_finished": "7 days", "keep_dead": "30 days"}
    now = {"keep_finished": "1 day", "keep_dead": "2 days"}
    assert ("retention", "default", "disk is full", True, {"from": was, "to": now}) == record.fetchone()


@pytest.mark.parametrize("status", ["pending", "dead_letter"])
def test_a_queue_that_only_tasks_name_gets_its_row(connection: psycopg.Connection, status: str) -> None:
    """Also if all of them are dead letters. (A queue that a worker has served already has a row.)"""
    put(connection, status, queue="mail")

    connection.execute("SELECT orchestrator.set_retention('mail', '1 day')")

    assert timedelta(days=1) == one(
        connection, "SELECT keep_finished FROM orchestrator.queues WHERE name = 'mail'"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        ("'mial', '1 day'", "OR005", "there is no queue 'mial'", "The queues are default."),
        ("NULL, '1 day'", "OR005", "there is no queue NULL", "The queues are default."),
        (
            "'default'",
            "OR006",
            "set_retention needs keep_finished or keep_dead",
            "For example: SELECT * FROM orchestrator.set_retention('mail', keep_finished => '3 days')",
        ),
        (
            "'default', '-1 day'",
            "OR006",
            "keep_finished is -1 days and keep_dead is left out; both must lie between 0 and 1000 years",
            "To keep everything, write 1000 years.",
        ),
        (
            "'default', keep_dead => '1001 years'",
            "OR006",
            "keep_finished is left out and keep_dead is 1001 years; both must lie between 0 and 1000 years",
            "To keep everything, write 1000 years.",
        ),
    ],
)
def test_invalid_periods_are_refused(
    connection: psycopg.Connection, arguments: LiteralString, code: str, message: str, hint: str
) -> None:
    """The message says what to do instead, and nothing changes."""
    diagnostic = refusal(connection, f"SELECT orchestrator.set_retention({arguments})")

    assert (code, message, hint) == (diagnostic.sqlstate, diagnostic.message_primary, diagnostic.message_hint)
    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.queues")
    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.audit")
