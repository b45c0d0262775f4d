"""The database of a lane, with record tables beside the product's. A trigger records every change of a task, handlers
record every start on a connection of their own, and the transactions that complete tasks write the ledger."""

from typing import Any, LiteralString

import psycopg

from tests.invariants import moves

TABLES: LiteralString = """
CREATE SCHEMA points;
CREATE TABLE points.executions (
    n bigint GENERATED ALWAYS AS IDENTITY, task_id bigint, attempt int, lease bigint, pid int
);
CREATE TABLE points.ledger (task_id bigint, attempt int, lease bigint);
CREATE TABLE points.orders (key text);
"""
CLEAR: LiteralString = """
DELETE FROM orchestrator.tasks;
DELETE FROM orchestrator.attempts;
DELETE FROM orchestrator.idempotency_keys;
DELETE FROM orchestrator.workers;
DELETE FROM points.executions;
DELETE FROM points.ledger;
DELETE FROM points.orders;
DELETE FROM watch.history;
"""


def create_records(connection: psycopg.Connection[Any]) -> None:
    """Create the record tables and triggers."""
    connection.execute(moves.WATCH)
    connection.execute(TABLES)


def clear(connection: psycopg.Connection[Any]) -> None:
    """Delete all rows of the last run. No other session may be active."""
    connection.execute(CLEAR)
