"""The ways to enqueue, and to call any function, each with any content. A way returns the ids of the accepted tasks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import psycopg
from hypothesis import strategies as st
from psycopg import sql

from orchestrator import Orchestrator
from tests.fuzz import values

COLUMNS = {
    "type": "text", "payload": "jsonb", "queue": "text", "priority": "smallint", "run_at": "timestamp with time zone",
    "idempotency_key": "text", "max_attempts": "smallint", "timeout": "interval", "tags": "text[]",
    "metadata": "jsonb", "trace_context": "jsonb",
}  # fmt: skip
ARGUMENTS = {
    "type": "text", "payload": "jsonb", "queue": "text", "priority": "integer", "run_at": "timestamp with time zone",
    "delay": "interval", "key": "text", "key_window": "interval", "max_attempts": "integer", "timeout": "interval",
    "tags": "text[]", "metadata": "jsonb", "trace_context": "jsonb",
}  # fmt: skip

# All columns that a claim or an attempt reads, except the counters.
EDITABLE = {
    "payload": "jsonb", "metadata": "jsonb", "trace_context": "jsonb", "error": "jsonb", "progress": "jsonb",
    "result": "jsonb", "tags": "text[]", "timeout": "interval", "max_attempts": "smallint", "type": "text",
    "queue": "text", "priority": "smallint", "run_at": "timestamp with time zone", "idempotency_key": "text",
}  # fmt: skip


class Doors(NamedTuple):
    """What a producer may use: an application, and a session under the producer's role."""

    app: Orchestrator
    session: psycopg.Connection


class Way(NamedTuple):
    """One way to enqueue, with its arguments. `sent`: the payloads, if Python enqueues them."""

    name: str
    enqueue: Callable[[Doors], list[int]]
    sent: list[Any] | None
    shown: Any

    def __repr__(self) -> str:
        try:
            return f"{self.name}: {self.shown!r}"[:4000]
        except ValueError:
            return f"{self.name}: (with a number too long to print)"


def python_one(kind: str, payload: Any, options: Mapping[str, Any]) -> Way:
    """Enqueue by name, from Python."""
    return Way(
        "app.enqueue",
        lambda doors: [doors.app.enqueue(kind, payload, **options).id],
        [payload],
        (kind, payload, options),
    )


def python_many(kind: str, payloads: list[Any], options: Mapping[str, Any]) -> Way:
    """Enqueue a set, from Python."""

    def enqueue(doors: Doors) -> list[int]:
        calls = [doors.app.call(kind, payload, **options) for payload in payloads]
        return [handle.id for handle in doors.app.enqueue_many(calls)]

    return Way("app.enqueue_many", enqueue, payloads, (kind, payloads, options))


def function_one(arguments: Mapping[str, str]) -> Way:
    """Call enqueue()."""
    return Way(
        "enqueue()", lambda doors: called(doors.session, "enqueue", arguments, ARGUMENTS), None, arguments
    )


def function_many(items: Any) -> Way:
    """Call enqueue_many() with any JSON."""
    given = {"tasks": values.dumps(items)}
    query = "SELECT id FROM orchestrator.enqueue_many(%(tasks)s::jsonb)"
    return Way("enqueue_many()", lambda doors: ids(doors.session.execute(query, given)), None, items)


def function_alike(payloads: Any, alike: Any) -> Way:
    """Call enqueue_alike() with any JSON."""
    given = {"payloads": values.dumps(payloads), "alike": values.dumps(alike)}
    query = "SELECT unnest(orchestrator.enqueue_alike(%(payloads)s::jsonb, %(alike)s::jsonb))"
    return Way(
        "enqueue_alike()", lambda doors: ids(doors.session.execute(query, given)), None, (payloads, alike)
    )


def insert(columns: Mapping[str, str]) -> Way:
    """INSERT a row."""
    query = sql.SQL("INSERT INTO orchestrator.tasks ({}) VALUES ({}) RETURNING id").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(sql.SQL("{}::" + COLUMNS[name]).format(sql.Placeholder(name)) for name in columns),
    )
    return Way("INSERT", lambda doors: ids(doors.session.execute(query, columns)), None, columns)


def called(
    session: psycopg.Connection, name: str, arguments: Mapping[str, str], types: Mapping[str, str]
) -> list[int]:
    """Call a function with named arguments; return the ids that it returns."""
    query = sql.SQL("SELECT * FROM {}({}) AS answer").format(
        sql.Identifier("orchestrator", name),
        sql.SQL(", ").join(
            sql.SQL("{} => {}::" + types[argument]).format(
                sql.Identifier(argument), sql.Placeholder(argument)
            )
            for argument in arguments
        ),
    )
    return ids(session.execute(query, arguments))


def ids(cursor: psycopg.Cursor[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in cursor.fetchall() if row]


class Edit(NamedTuple):
    """A column of a task, and a new value for it."""

    column: str
    value: str

    def write(self, connection: psycopg.Connection, task_id: int) -> None:
        """Write the value into this task."""
        query = sql.SQL("UPDATE orchestrator.tasks SET {} = %s::{} WHERE id = %s").format(
            sql.Identifier(self.column), sql.SQL(EDITABLE[self.column])
        )
        connection.execute(query, [self.value, task_id])


def subset(types: Mapping[str, str], *, always: str) -> st.SearchStrategy[dict[str, str]]:
    """Draw some of these arguments, each with any value for its type."""
    by_name = {name: values.BY_TYPE[kind] for name, kind in types.items()}
    return st.fixed_dictionaries({always: by_name.pop(always)}, optional=by_name)


WAYS = st.one_of(
    st.builds(python_one, values.names, values.payloads, values.options),
    st.builds(python_one, st.just("mail"), values.payloads, st.just({})),
    st.builds(python_many, values.names, st.lists(values.payloads, min_size=1, max_size=3), values.options),
    st.builds(function_one, subset(ARGUMENTS, always="type")),
    st.builds(function_many, st.lists(values.members, max_size=3) | values.values),
    st.builds(
        function_alike,
        st.lists(st.dictionaries(values.texts, values.values, max_size=2), max_size=3) | values.values,
        values.members | values.values,
    ),
    st.builds(insert, subset(COLUMNS, always="type")),
)

PUT_BACK = (
    '{"put_back": 3}',
    '{"put_back": "often"}',
    '{"put_back": 1e300}',
    '{"put_back": -1.5}',
    '{"put_back": []}',
)
EDITS = st.one_of(
    st.sampled_from(PUT_BACK).map(lambda body: Edit("error", body)),
    *(st.builds(Edit, st.just(column), values.BY_TYPE[kind]) for column, kind in EDITABLE.items()),
)
