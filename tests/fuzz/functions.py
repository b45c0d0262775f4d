"""Every function in the catalog that a role may call, with any values of its arguments' types."""

from collections.abc import Mapping
from typing import NamedTuple

import psycopg
from hypothesis import strategies as st
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.fuzz import values

CALLABLE = """
    SELECT p.proname, r.name,
        ARRAY(
            SELECT ROW(p.proargnames[a.n], format_type(a.kind, NULL))
            FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS a (kind, n)
            WHERE coalesce(p.proargmodes[a.n], 'i') IN ('i', 'b')
            ORDER BY a.n
        ),
        p.pronargs - p.pronargdefaults
    FROM pg_proc AS p
    CROSS JOIN unnest(ARRAY['orchestrator_producer', 'orchestrator_worker', 'orchestrator_operator']) AS r (name)
    WHERE p.pronamespace = 'orchestrator'::regnamespace AND p.prorettype <> 'trigger'::regtype
        AND has_function_privilege(r.name, p.oid, 'EXECUTE')
    ORDER BY p.proname, r.name
"""


class Function(NamedTuple):
    """A function that one role may call, with its arguments and their types. The first `required` are always given."""

    name: str
    role: str
    arguments: tuple[tuple[str, str], ...]
    required: int


class FunctionCall(NamedTuple):
    """A call of a function, with its arguments."""

    function: Function
    given: Mapping[str, str | None]

    def within(self, connection: psycopg.Connection) -> None:
        """Make the call in the open transaction, under the function's role."""
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(self.function.role)))
        types = dict(self.function.arguments)
        arguments = [
            sql.SQL("{} => {}::" + types[name]).format(sql.Identifier(name), sql.Placeholder(name))
            for name in self.given
        ]
        query = sql.SQL("SELECT * FROM {}({}) AS answer").format(
            sql.Identifier("orchestrator", self.function.name), sql.SQL(", ").join(arguments)
        )
        connection.execute(query, self.given).fetchall()


def callable_ones(connection: psycopg.Connection) -> list[Function]:
    """Read from the catalog the functions that the roles may call."""
    rows = connection.execute(CALLABLE.encode()).fetchall()
    return [Function(name, role, tuple(arguments), required) for name, role, arguments, required in rows]


def calls(functions: list[Function], known: Mapping[str, str]) -> st.SearchStrategy[FunctionCall]:
    """Draw a call of any of them. `known`: for a type, the text of an existing task, queue or worker."""
    return st.sampled_from(functions).flatmap(lambda function: call_of(function, known))


def call_of(function: Function, known: Mapping[str, str]) -> st.SearchStrategy[FunctionCall]:
    any_of = {
        name: st.sampled_from([known[kind]] * 3 + [None] if kind in known else [None]) | values.BY_TYPE[kind]
        for name, kind in function.arguments
    }
    always = [name for name, _ in function.arguments[: function.required]]
    given = st.fixed_dictionaries({name: any_of.pop(name) for name in always}, optional=any_of)
    return given.map(lambda values: FunctionCall(function, values))


def shelf(connection: psycopg.Connection) -> dict[str, str]:
    """Return a value of each kind that exists: the id of a new task, a queue, and the id of a worker."""
    with connection.transaction():
        (task_id,) = connection.execute(
            "SELECT orchestrator.enqueue('mail', %s, delay => '1 year')", [Jsonb({"a": 1})]
        ).fetchone() or (0,)
        (worker_id,) = connection.execute("SELECT id FROM orchestrator.workers LIMIT 1").fetchone() or (0,)
    return {"bigint": str(task_id), "text": "post", "uuid": str(worker_id)}
