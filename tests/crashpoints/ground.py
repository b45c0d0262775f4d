"""The database of a lane, and what is written down in it beside the product: every change of a task by a trigger, every
start of a handler on its own line, and the ledger that handlers write in the transaction of their completion."""

from typing import Any, LiteralString

import psycopg

WATCH: LiteralString = """
CREATE SCHEMA points;
CREATE TABLE points.executions (
    n bigint GENERATED ALWAYS AS IDENTITY, task_id bigint, attempt int, lease bigint, pid int
);
CREATE TABLE points.ledger (task_id bigint, attempt int, lease bigint);
CREATE TABLE points.orders (key text);
CREATE TABLE points.moves (
    n bigint GENERATED ALWAYS AS IDENTITY, task_id bigint,
    old_status text, new_status text, old_lease bigint, new_lease bigint, new_error jsonb
);
CREATE FUNCTION points.write_down() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO points.moves (task_id, old_status, new_status, old_lease, new_lease, new_error)
    VALUES (coalesce(NEW.id, OLD.id), OLD.status, NEW.status, OLD.lease, NEW.lease, NEW.error);
    RETURN NULL;
END
$$;
CREATE TRIGGER points_moves AFTER INSERT OR UPDATE OR DELETE ON orchestrator.tasks
    FOR EACH ROW EXECUTE FUNCTION points.write_down();
"""
CLEAR: LiteralString = """
DELETE FROM orchestrator.tasks;
DELETE FROM orchestrator.attempts;
DELETE FROM orchestrator.idempotency_keys;
DELETE FROM orchestrator.workers;
DELETE FROM points.executions;
DELETE FROM points.ledger;
DELETE FROM points.orders;
DELETE FROM points.moves;
"""


def lay(connection: psycopg.Connection[Any]) -> None:
    """Make the tables and triggers that watch."""
    connection.execute(WATCH)


def clear(connection: psycopg.Connection[Any]) -> None:
    """Leave nothing of the last run; nobody may work here meanwhile."""
    connection.execute(CLEAR)
