"""Our SQL finds no name through a search_path in which other roles may create objects.

Our sessions set their own path when they open. A statement in a user's session qualifies all functions, types and
operators. tests/security/test_search_path.py shows on a real server that this is enough.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.parsing import parsed

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "orchestrator"

# The statements that run in sessions with a foreign path, and the reason.
IN_A_USERS_SESSION = {
    "enqueue/*.sql": "enqueues in the user's session, and through poolers",
    "finish/own_transaction.sql": "ends a handler's own transaction",
    "finish/complete.sql": "ends a handler's own transaction",
    "finish/complete_all.sql": "ends a handler's own transaction",
    "operate/state.sql": "reads for a handle, through a pooler too",
    "postgres/reset_session.sql": "prepares a connection for the next handler",
    "postgres/safe_path.sql": "runs before the path is safe",
    "operate/doctor/search_path.sql": "checks a path that is not safe",
}
PINNED = "SET search_path = pg_catalog, orchestrator, pg_temp"
# The modules that open connections. They set the path of each.
OPENERS = {"orchestrator/postgres/connect.py", "orchestrator/schema/engine.py"}

COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
LITERAL = re.compile(r"'(?:[^']|'')*'")
SETTING = re.compile(r"\b(?:SET|RESET|DISCARD)\b[^;]*(?:;|$)", re.IGNORECASE)
QUALIFIED_OPERATOR = re.compile(r"OPERATOR\(pg_catalog\.[-+*/<>=~!@#%^&|?]+\)")
PLACEHOLDER = re.compile(r"%\(\w+\)s")
NO_OPERATOR = re.compile(r"=>|::|\(\*\)|\bSELECT \*")
OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")
# These look up an operator by its name, and cannot name its schema.
HIDDEN = re.compile(r"\b(?:IN|BETWEEN|I?LIKE|SIMILAR|NULLIF|DISTINCT\s+FROM|USING\s*\(|CASE(?!\s+WHEN))\b")
CALL = re.compile(r"(?<![.\w])(\w+)\s*\(")
# No functions: these are clauses, or the grammar itself maps them to objects of pg_catalog.
SYNTAX = {
    "all", "and", "any", "array", "as", "by", "case", "cast", "coalesce", "else", "exists", "extract", "filter", "from",
    "greatest", "in", "lateral", "least", "not", "on", "operator", "or", "over", "row", "select", "then", "values",
    "when", "where", "with", "materialized", "within",
}  # fmt: skip
NAMED_COLUMNS = re.compile(r"\b(?:AS|INTO)\s+[\w.]+\s*\(", re.IGNORECASE)
CAST = re.compile(r"::\s*([\w.]+)|\bCAST\((?:[^()]|\([^()]*\))*?\bAS\s+([\w.]+)")
TYPED_LITERAL = re.compile(r"\b(?:date|text|jsonb?|uuid|timestamptz|oid|name|regclass)\s+''")
# Words of the grammar. They always mean PostgreSQL's own types.
OF_THE_GRAMMAR = {"bigint", "integer", "smallint", "interval", "boolean", "numeric", "double", "real"}


def unqualified(statement: str) -> list[str]:
    """Return the names and operators that a statement looks up in search_path."""
    text = LITERAL.sub("''", COMMENT.sub("", statement))
    text = SETTING.sub("", PLACEHOLDER.sub("given", text))
    text = QUALIFIED_OPERATOR.sub("", text)
    casts = [found[1] or found[2] for found in CAST.finditer(text)]
    calls = CALL.findall(NAMED_COLUMNS.sub("", text))
    return [
        *(f"the call {name}()" for name in calls if name.lower() not in SYNTAX),
        *(
            f"the type {name}"
            for name in casts
            if not (name in OF_THE_GRAMMAR or name.startswith("pg_catalog."))
        ),
        *(f"the type of {found[0]}" for found in TYPED_LITERAL.finditer(text)),
        *(f"the operator {found}" for found in OPERATOR.findall(NO_OPERATOR.sub("", text))),
        *(f"the operator of {found[0].split()[0]}" for found in HIDDEN.finditer(text)),
    ]


def body_of(function: str) -> str:
    """Return the body of a function, between its `$$`."""
    found = re.search(r"AS \$\$(.*)\$\$", function, re.DOTALL)
    assert found is not None
    return found[1]


def openings(path: Path) -> Iterator[str]:
    """Yield the calls of a module that open a connection without setting its path."""
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        called, keywords = ast.unparse(node.func), {keyword.arg for keyword in node.keywords}
        if re.search(r"\b(?:psycopg|\w*Connection)\.connect$|^create_(?:async_)?engine$", called):
            yield f"{node.lineno}: {called}()"
        if re.search(r"ConnectionPool(?:\[.*\])?$", called) and "configure" not in keywords:
            yield f"{node.lineno}: {called}() without configure"
        if "safe_path" in keywords and path.name != "transaction_pool.py":
            yield f"{node.lineno}: {called}(safe_path=)"


@pytest.mark.parametrize("pattern", IN_A_USERS_SESSION)
def test_sql_in_a_users_session_is_qualified(pattern: str) -> None:
    """In such a session another role's function may come first in the path, or fit the types better."""
    paths = sorted(PACKAGE.glob(pattern))

    assert paths != []
    assert {} == {path.name: found for path in paths if (found := unqualified(path.read_text()))}


def test_a_function_sets_its_path_or_qualifies_all() -> None:
    """PostgreSQL inlines clock(), but no function with a setting. So clock() qualifies all names instead."""
    faults = {
        path.name: found
        for path in sorted((PACKAGE / "schema" / "functions").glob("*.sql"))
        for text in [path.read_text()]
        if PINNED not in text.partition("AS $$")[0] and (found := unqualified(body_of(text)))
    }

    assert {} == faults


def test_only_one_module_opens_connections() -> None:
    """This module sets the path of each connection. The pools use the same functions."""
    found = {
        name: list(openings(path))
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := str(path.relative_to(REPOSITORY))) not in OPENERS
    }

    assert {} == {name: calls for name, calls in found.items() if calls}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT now()", ["the call now()"]),
        ("SELECT pg_catalog.count(*) FROM unnest(%(ids)s::bigint[]) AS g (id)", ["the call unnest()"]),
        ("SELECT CAST(%(a)s AS text)", ["the type text"]),
        ("SELECT CAST(CAST(%(a)s AS pg_catalog.text) AS jsonb)", ["the type jsonb"]),
        ("SELECT %(a)s::uuid", ["the type uuid"]),
        ("SELECT date '2026-01-01'", ["the type of date ''"]),
        ("SELECT a.b = 1", ["the operator ="]),
        ("SELECT a ->> 'b'", ["the operator ->>"]),
        ("SELECT 1 WHERE a.b IN (1, 2)", ["the operator of IN"]),
        ("SELECT a IS DISTINCT FROM b", ["the operator of DISTINCT"]),
    ],
)
def test_each_unqualified_name_is_found(statement: str, expected: list[str]) -> None:
    """The rule finds functions, types and operators."""
    assert expected == unqualified(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "-- now() = 1\nSELECT 'now() = 1'",
        "SELECT orchestrator.enqueue(CAST(%(a)s AS pg_catalog.text), timeout => CAST(%(b)s AS interval))",
        "INSERT INTO orchestrator.tasks (id) SELECT g.id FROM ROWS FROM (pg_catalog.unnest(%(i)s::bigint[])) AS g (id)",
        "SELECT coalesce(a.b, 1) FROM a WHERE a.b OPERATOR(pg_catalog.=) greatest(1, 2)",
        "SET LOCAL lock_timeout = '5s'; SELECT orchestrator.clock()",
    ],
)
def test_qualified_names_pass(statement: str) -> None:
    """Strings, comments, keywords and settings pass too."""
    assert [] == unqualified(statement)


def test_a_connection_that_another_module_opens_is_found(tmp_path: Path) -> None:
    """The rule finds a connection, an engine, a pool without `configure`, and a call with safe_path."""
    module = tmp_path / "planted.py"
    module.write_text(
        "psycopg.connect(info)\nawait_ = psycopg.AsyncConnection.connect(info)\ncreate_engine(url)\n"
        "ConnectionPool(info, open=True)\nconnect.open_sync(info, safe_path=False)\nconnect.open_sync(info)\n"
    )

    assert ["1", "2", "3", "4", "5"] == [found.partition(":")[0] for found in openings(module)]
