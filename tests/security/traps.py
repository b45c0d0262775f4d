"""Functions, operators, types and tables in `public` that stand in for PostgreSQL's own.

The names and types come from our SQL files and from the catalog of a migrated database. A trap that is called advances
a sequence of its name, which no ROLLBACK undoes, and raises an error.

An exactly typed function is preferred to a polymorphic one of pg_catalog at any order of the path. So each polymorphic
argument has a trap for each type that our tables and functions use.
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

# Every type of a column or an argument of ours, and of what our SQL calls, with their arrays.
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
# What is compared without an operator of just these types: one side is converted, unless a trap fits better.
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
    """One signature to be planted; `kind` is function, set or aggregate."""

    name: str
    arguments: tuple[str, ...]
    result: str
    kind: str


class Operator(NamedTuple):
    """The same for an operator; an empty side is none."""

    name: str
    left: str
    right: str
    result: str


class Plan(NamedTuple):
    """What is to be planted."""

    functions: list[Function]
    operators: list[Operator]
    types: list[str]
    tables: list[str]


def sources() -> str:
    """Return all SQL of ours, without its comments: the package's, the migrations', and what lies in Python."""
    paths = [*(ROOT / "orchestrator").rglob("*.sql"), *(ROOT / "migrations").rglob("*.sql")]
    paths += [ROOT / "migrations" / "env.py", *(ROOT / "orchestrator" / "operate").glob("*.py")]
    return "\n".join(re.sub(r"--[^\n]*", "", path.read_text()) for path in sorted(paths))


def plan(reference: psycopg.Connection) -> Plan:
    """Collect what our SQL names; `reference` is a session on a migrated database without traps."""
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
    """Collect the operators, and those of two types of which one would be converted to the other."""
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
    """Yield a signature for each type that its polymorphic arguments may have; itself, if it has none."""
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
    """Plant it all; whoever works in this database may call it."""
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
    # Last: from here on public.text is one of them.
    run(connection, (text for name in what.types for text in domain(name)))
    connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")


def run(connection: psycopg.Connection, statements: Iterable[str]) -> None:
    """Run many at once, each by itself where several do not go: some types only C functions take."""
    waiting = list(statements)
    while waiting:
        batch, waiting = waiting[:BATCH], waiting[BATCH:]
        guarded = "".join(f"BEGIN {text}; EXCEPTION WHEN OTHERS THEN NULL; END;\n" for text in batch)
        connection.execute(f"DO $do$ BEGIN {guarded} END $do$".encode())


def planted(number: int, one: Function) -> Iterator[str]:
    """Yield what makes a function or an aggregate; of another result where its own is none that PL/pgSQL has."""
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
    """Return what makes a function that tells of itself under a name."""
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
    """Return the names of the traps that were called."""
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
    """Return what puts `public` first in the path of a database or a role."""
    return sql.SQL("ALTER {} {} SET search_path = public, pg_catalog").format(
        sql.SQL(kind), sql.Identifier(name)
    )
