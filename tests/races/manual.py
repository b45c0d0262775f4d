"""The statements of operators and producers: plain SQL on `orchestrator.tasks`, and the functions of the schema."""

from datetime import timedelta

from psycopg.types.json import Jsonb

from tests.races.statements import WORKERS
from tests.races.stepping import Step


def sql(name: str, query: bytes, **params: object) -> Step:
    return Step(name, query, params)


def requeue(*ids: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET status = 'pending' WHERE id = ANY (%(ids)s) RETURNING id"
    return sql("requeue", query, ids=list(ids))


def requeue_dead() -> Step:
    return sql("requeue", b"SELECT orchestrator.requeue_where(status => 'dead_letter')")


def cancel(*ids: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = ANY (%(ids)s) RETURNING id"
    return sql("cancel", query, ids=list(ids))


def delete(*ids: int) -> Step:
    return sql(
        "delete", b"DELETE FROM orchestrator.tasks WHERE id = ANY (%(ids)s) RETURNING id", ids=list(ids)
    )


def raise_priority(where: str = "finished_at IS NULL") -> Step:
    query = b"UPDATE orchestrator.tasks SET priority = 90 WHERE %b RETURNING id"
    return sql("priority", query % where.encode())


def run_at(task_id: int, *, hours: int) -> Step:
    query = b"UPDATE orchestrator.tasks SET run_at = now() + %(after)s WHERE id = %(id)s RETURNING id"
    return sql("run_at", query, id=task_id, after=timedelta(hours=hours))


def by_function(name: str, task_id: int) -> Step:
    """Change a task through a function of the schema. There an unknown id is an error."""
    return sql(name, b"SELECT %(id)s WHERE orchestrator." + name.encode() + b"(%(id)s)", id=task_id)


def lock(task_id: int) -> Step:
    """Read a task and keep it locked, like a forgotten transaction of an operator."""
    return sql("lock", b"SELECT id FROM orchestrator.tasks_live WHERE id = %(id)s FOR UPDATE", id=task_id)


def lock_worker(name: str) -> Step:
    return sql("lock", b"SELECT 1 FROM orchestrator.workers WHERE id = %(id)s FOR UPDATE", id=WORKERS[name])


def pause() -> Step:
    return sql("pause", b"SELECT orchestrator.pause_queue('default')")


def insert(key: str = "k") -> Step:
    query = b"INSERT INTO orchestrator.tasks (type, idempotency_key) VALUES ('mail', %(key)s) RETURNING id"
    return sql("insert", query, key=key)


def enqueue(key: str = "k") -> Step:
    return sql("enqueue", b"SELECT orchestrator.enqueue('mail', key => %(key)s)", key=key)


def enqueue_many(*keys: str) -> Step:
    items = Jsonb([{"type": "mail", "key": key} for key in keys])
    return sql("enqueue", b"SELECT id, created FROM orchestrator.enqueue_many(%(items)s)", items=items)
