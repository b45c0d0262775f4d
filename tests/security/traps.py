"""Traps: functions, operators, types and tables in `public` with the names of PostgreSQL's own.

The names and types come from our SQL files and from the catalog of a migrated database. A trap that is called advances
a sequence of its name, which no ROLLBACK undoes, and raises an error.

PostgreSQL prefers a function with exact types to a polymorphic one of pg_catalog, whatever the order of the path. So
each polymorphic argument has a trap for each type that our tables and functions use.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

ROOT = Path(__file__).parents[2]
CALLED = re.compile(r"\b([a-z_][a-z0-9_]*)\s*\(")
WORD = re.compile(r"\b[a-z_][a-z0-9_]*\b")
OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")

# Every type of our columns and arguments, and of the functions and tables that our SQL names, with its array type.
TYPES = """
    WITH used AS (
        SELECT a.atttypid AS oid FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'orchestrator'::regnamespace
            OR c.relnamespace = 'pg_catalog'::regnamespace AND c.relname = ANY (%(words)s)
        UNION
        SELECT unnest(p.proargtypes || ARRAY[p.prorettype]) FROM pg_proc AS p
        WHERE p.pronamespace = 'orchestrator'::regnamespace
            OR p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (%(called)s)
    )
    SELECT t.oid, format_type(t.oid, NULL), t.typelem <> 0 AND t.typcategory = 'A',
        CASE WHEN t.typarray <> 0 THEN format_type(t.typarray, NULL) END
    FROM pg_type AS t
    WHERE t.typtype IN ('b', 'd') AND t.typnamespace = 'pg_catalog'::regnamespace
        AND (t.oid IN (SELECT u.oid FROM used AS u) OR t.oid IN (
            SELECT e.typarray FROM pg_type AS e JOIN used AS u ON u.oid = e.oid
        ))
"""
FUNCTIONS = """
    SELECT p.proname,
        ARRAY(SELECT format_type(a, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (a, n) ORDER BY n),
        p.provariadic <> 0, format_type(p.prorettype, NULL),
        CASE WHEN p.prokind = 'a' THEN 'aggregate' WHEN p.proretset THEN 'set' ELSE 'function' END
    FROM pg_proc AS p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (%(called)s)
"""
OPERATORS = """
    SELECT o.oprname, coalesce(format_type(nullif(o.oprleft, 0), NULL), ''), format_type(o.oprright, NULL),
        format_type(o.oprresult, NULL)
    FROM pg_operator AS o
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = ANY (%(operators)s)
"""
# The implicit casts. Without an operator for a pair of types PostgreSQL converts one side, unless a trap fits better.
CONVERTED = """
    SELECT format_type(k.castsource, NULL), format_type(k.casttarget, NULL) FROM pg_cast AS k WHERE k.castcontext = 'i'
"""
NAMES = """
    SELECT 'type', t.typname FROM pg_type AS t
    WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b' AND t.typname = ANY (%(words)s)
        AND t.typcategory <> 'A'
    UNION ALL
    SELECT 'table', c.relname FROM pg_class AS c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname = ANY (%(words)s)
"""
POLYMORPHIC = {
    "anyelement", "anynonarray", "anyarray", "anycompatible", "anycompatiblearray", "anycompatiblenonarray", '"any"',
}  # fmt: skip
VARIADIC_MOST = 8
BATCH = 400


class Function(NamedTuple):
    """The signature of one trap; `kind` is function, set or aggregate."""

    name: str
    arguments: tuple[str, ...]
    result: str
    kind: str


class Operator(NamedTuple):
    """The signature of one operator; `left` is empty for a prefix operator."""

    name: str
    left: str
    right: str
    result: str


class Plan(NamedTuple):
    """All traps to create."""

    functions: list[Function]
    operators: list[Operator]
    types: list[str]
    tables: list[str]


def sources() -> str:
    """Return all our SQL without comments: of the package, of the migrations, and of Python files that contain SQL."""
    paths = [*(ROOT / "orchestrator").rglob("*.sql"), *(ROOT / "migrations").rglob("*.sql")]
    paths += [ROOT / "migrations" / "env.py", *(ROOT / "orchestrator" / "operate").glob("*.py")]
    return "\n".join(re.sub(r"--[^\n]*", "", path.read_text()) for path in sorted(paths))


def plan(reference: psycopg.Connection) -> Plan:
    """Collect the names in our SQL; `reference` is a session on a migrated database without traps."""
    text = sources()
    given = {
        "called": sorted(set(CALLED.findall(text))),
        "words": sorted(set(WORD.findall(text))),
        "operators": sorted(set(OPERATOR.findall(text))),
    }
    types = reference.execute(TYPES, given).fetchall()
    arrays = {name: array for _, name, is_array, array in types if not is_array}
    functions = {
        Function(name, signature, result, kind)
        for name, arguments, variadic, returned, kind in reference.execute(FUNCTIONS, given).fetchall()
        for signature, result in expanded(arguments, returned, arrays, variadic=variadic)
    }
    names = reference.execute(NAMES, given).fetchall()
    return Plan(
        sorted(functions),
        operators(reference, given, arrays, {name for _, name, _, _ in types}),
        [name for kind, name in names if kind == "type"],
        [name for kind, name in names if kind == "table"],
    )


def operators(
    reference: psycopg.Connection, given: dict[str, list[str]], arrays: dict[str, str | None], known: set[str]
) -> list[Operator]:
    """Collect the operators, also for each pair of types of which PostgreSQL converts one to the other."""
    converted = reference.execute(CONVERTED).fetchall()
    found: set[Operator] = set()
    for name, left, right, returned in reference.execute(OPERATORS, given).fetchall():
        for (one, other), result in expanded([left, right], returned, arrays, variadic=False):
            found.add(Operator(name, one, other, result))
            for source, target in converted:
                if source in known and target == one == other:
                    pairs = ((source, target), (target, source), (source, source))
                    found |= {Operator(name, *pair, result) for pair in pairs}
    return sorted(each for each in found if {each.left, each.right} <= known | {""})


def expanded(
    arguments: list[str], result: str, arrays: dict[str, str | None], *, variadic: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a signature for each type of the polymorphic arguments, or the given one if it has no such argument."""
    if not POLYMORPHIC.intersection(arguments):
        yield tuple(arguments), result
        return
    for name, array in arrays.items():
        kinds = [name, array] if {'"any"', "anyelement"}.intersection(arguments) else [name]
        for kind in filter(None, kinds):
            whole = array or kind
            *fixed, made = (
                whole if one in ("anyarray", "anycompatiblearray") else kind if one in POLYMORPHIC else one
                for one in (*arguments, result)
            )
            yield tuple(fixed), made
            if variadic and arguments[-1] == '"any"':
                yield from (((*fixed, *[kind] * more), made) for more in range(1, VARIADIC_MOST))


def plant(connection: psycopg.Connection, what: Plan) -> None:
    """Create all traps. Every role may call them."""
    connection.execute("SET search_path = pg_catalog, pg_temp")
    connection.execute("CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap, public TO PUBLIC")
    names = sorted(
        {
            *(one.name for one in what.functions),
            *(one.name for one in what.operators),
            *what.types,
            *what.tables,
        }
    )
    run(connection, (f"CREATE SEQUENCE trap.{quoted(name)}" for name in names))
    run(connection, ["GRANT ALL ON ALL SEQUENCES IN SCHEMA trap TO PUBLIC"])
    run(connection, (text for number, one in enumerate(what.functions) for text in planted(number, one)))
    run(connection, (text for number, one in enumerate(what.operators) for text in operator(number, one)))
    run(connection, (text for name in what.tables for text in table(name)))
    # The types come last: after this statement public.text is a trap.
    run(connection, (text for name in what.types for text in domain(name)))
    connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")


def run(connection: psycopg.Connection, statements: Iterable[str]) -> None:
    """Run the statements in batches; skip each one that fails, because only C functions take some types."""
    waiting = list(statements)
    while waiting:
        batch, waiting = waiting[:BATCH], waiting[BATCH:]
        guarded = "".join(f"BEGIN {text}; EXCEPTION WHEN OTHERS THEN NULL; END;\n" for text in batch)
        connection.execute(f"DO $do$ BEGIN {guarded} END $do$".encode())


def planted(number: int, one: Function) -> Iterator[str]:
    """Yield the statements for a function or an aggregate. The second function is for results that PL/pgSQL lacks."""
    called = f"public.{quoted(one.name)}"
    if one.kind == "aggregate":
        state = f"trap.state_{number}"
        yield function(one.name, state, ("bigint", *one.arguments), "bigint")
        of = ", ".join(one.arguments) or "*"
        yield f"CREATE AGGREGATE {called}({of}) (SFUNC = {state}, STYPE = bigint, INITCOND = 0)"
        return
    several = "SETOF " if one.kind == "set" else ""
    yield function(one.name, called, one.arguments, several + one.result)
    yield function(one.name, called, one.arguments, several + "text")


def function(name: str, called: str, arguments: tuple[str, ...], result: str) -> str:
    """Return the statement for a function that advances the sequence of a name and raises an error."""
    place = "trap." + quoted(name)
    says = literal("TRAP " + name.replace("%", "%%"))
    body = f"BEGIN PERFORM pg_catalog.nextval({literal(place)}); RAISE EXCEPTION {says}; END"
    listed = ", ".join(filter(None, arguments))
    return f"CREATE FUNCTION {called}({listed}) RETURNS {result} LANGUAGE plpgsql AS $f$ {body} $f$"


def operator(number: int, one: Operator) -> Iterator[str]:
    sides = (f"LEFTARG = {one.left}, " if one.left else "") + f"RIGHTARG = {one.right}"
    yield function(one.name, f"trap.operator_{number}", (one.left, one.right), one.result)
    yield f"CREATE OPERATOR public.{one.name} (FUNCTION = trap.operator_{number}, {sides})"


def table(name: str) -> Iterator[str]:
    yield function(name, f"trap.{quoted('read_' + name)}", (), "boolean")
    rows = f"SELECT * FROM pg_catalog.{quoted(name)} WHERE trap.{quoted('read_' + name)}()"  # noqa: S608 - of a test
    yield f"CREATE VIEW public.{quoted(name)} AS {rows}"


def domain(name: str) -> Iterator[str]:
    yield function(name, f"trap.{quoted('cast_' + name)}", (f"pg_catalog.{quoted(name)}",), "boolean")
    yield (
        f"CREATE DOMAIN public.{quoted(name)} AS pg_catalog.{quoted(name)} CHECK (trap.{quoted('cast_' + name)}(VALUE))"
    )


def sprung(connection: psycopg.Connection) -> list[str]:
    """Return the names of the traps that any session has called."""
    connection.execute("SET search_path = pg_catalog, pg_temp")
    rows = connection.execute(
        "SELECT s.sequencename FROM pg_sequences AS s"
        " WHERE s.schemaname = 'trap' AND s.last_value IS NOT NULL ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def path_of(kind: str, name: str) -> sql.Composed:
    """Return the statement that puts `public` first in the path of a database or a role."""
    return sql.SQL("ALTER {} {} SET search_path = public, pg_catalog").format(
        sql.SQL(kind), sql.Identifier(name)
    )
