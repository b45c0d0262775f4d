"""The rights: role × object × verb, from the catalog and from real attempts.

`granted` asks the server what it allows (has_…_privilege). `tried` does each action with a login that is a member of
one role only, and rolls it back. Both must be equal to docs/reference/rights.md. So the reviewer of a change sees each
new object and each new right as a line of that page.

Some actions cannot be tried. No role can write a generated column, or a view with a join. The server checks REFERENCES
only after the key that it needs. MAINTAIN exists from PostgreSQL 17 on. For these the tests ask only the catalog.
"""

from collections.abc import Iterable, Mapping
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql

ROLES = ("producer", "worker", "operator", "reader", "public")
LETTERS = {
    "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d", "TRUNCATE": "D", "REFERENCES": "x", "TRIGGER": "t",
    "MAINTAIN": "m", "EXECUTE": "X", "USAGE": "U", "CREATE": "C",
}  # fmt: skip
DENIED = "42501"
DONE = "OK000"

# The name of a partition contains its day. All these partitions share one line.
OBJECTS: LiteralString = """
    SELECT 'schema' AS kind, n.nspname::text AS name, ''::text AS part, n.oid AS oid, '' AS column,
        ARRAY['USAGE', 'CREATE'] AS verbs, false AS fixed, false AS definer, 0 AS place
    FROM pg_namespace AS n
    WHERE n.nspname = 'orchestrator'
    UNION ALL
    SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END,
        regexp_replace(c.relname::text, '^tasks_done_[0-9]{8}$', 'tasks_done_YYYYMMDD'), '', c.oid, '',
        CASE WHEN c.relkind = 'S' THEN ARRAY['SELECT', 'UPDATE', 'USAGE']
            WHEN current_setting('server_version_num')::integer >= 170000
            THEN ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN']
            ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'] END,
        c.relkind = 'v' AND pg_relation_is_updatable(c.oid, false) = 0, false, 0
    FROM pg_class AS c
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind NOT IN ('i', 'I', 't', 'c')
    UNION ALL
    SELECT 'column', regexp_replace(c.relname::text, '^tasks_done_[0-9]{8}$', 'tasks_done_YYYYMMDD'), a.attname::text,
        c.oid, a.attname::text, ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES'],
        a.attgenerated <> '' OR a.attidentity = 'a'
            OR NOT pg_column_is_updatable(c.oid, a.attnum, false) AND c.relkind = 'v', false, a.attnum
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT 'function', p.proname::text,
        CASE WHEN count(*) OVER (PARTITION BY p.proname) > 1 THEN pg_get_function_identity_arguments(p.oid) ELSE '' END,
        p.oid, '', ARRAY['EXECUTE'], false, p.prosecdef, 0
    FROM pg_proc AS p
    WHERE p.pronamespace = 'orchestrator'::regnamespace
"""
ASKED: LiteralString = """
    SELECT r.role
    FROM unnest(%(roles)s::text[]) AS r (role)
    WHERE CASE %(kind)s
        WHEN 'schema' THEN has_schema_privilege(r.role, %(oid)s::oid, %(verb)s)
        WHEN 'sequence' THEN has_sequence_privilege(r.role, %(oid)s::oid, %(verb)s)
        WHEN 'function' THEN has_function_privilege(r.role, %(oid)s::oid, %(verb)s)
        WHEN 'column' THEN has_column_privilege(r.role, %(oid)s::oid, %(column)s, %(verb)s)
        ELSE has_table_privilege(r.role, %(oid)s::oid, %(verb)s)
    END
"""
# Each statement runs in a subtransaction, which is always rolled back.
VERDICT: LiteralString = """
    CREATE FUNCTION pg_temp.verdict(statement text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE statement;
        RAISE EXCEPTION USING ERRCODE = 'OK000';
    EXCEPTION WHEN OTHERS THEN
        RETURN SQLSTATE;
    END
    $$
"""


class Object(NamedTuple):
    """A schema, relation, column or function: the object of a right."""

    kind: str
    name: str
    part: str  # a column's name, or the arguments that tell two functions apart
    oid: int
    column: str
    verbs: tuple[str, ...]
    fixed: bool  # no role can write it
    definer: bool
    place: int

    @property
    def title(self) -> str:
        """Its name in the matrix."""
        if self.kind == "column":
            return f"  .{self.part}"
        return f"{self.kind} {self.name}{f'({self.part})' if self.part else ''}{' °' if self.definer else ''}"


# The statement for each verb on each kind of object. `tried` rolls them back.
ATTEMPTS: Mapping[tuple[str, str], LiteralString] = {
    ("schema", "USAGE"): (
        "DO $$ BEGIN PERFORM 'orchestrator.nothing'::regclass; EXCEPTION WHEN undefined_table THEN NULL; END $$"
    ),
    ("schema", "CREATE"): "CREATE TABLE orchestrator.mine (n integer)",
    ("table", "SELECT"): "SELECT {columns} FROM {name} WHERE false",
    ("table", "INSERT"): "INSERT INTO {name} ({columns}) SELECT {nulls} WHERE false",
    ("table", "UPDATE"): "UPDATE {name} SET {sets} WHERE false",
    ("table", "DELETE"): "DELETE FROM {name} WHERE false",
    ("table", "TRUNCATE"): "TRUNCATE {name}",
    ("table", "TRIGGER"): (
        "CREATE TRIGGER mine BEFORE INSERT ON {name} FOR EACH STATEMENT"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    ),
    ("sequence", "SELECT"): "SELECT last_value FROM {name}",
    ("sequence", "USAGE"): "SELECT nextval('{name}')",
    ("sequence", "UPDATE"): "SELECT setval('{name}', 1)",
    ("function", "EXECUTE"): "SELECT {call} WHERE false",
}

# Which roles have a verb on an object.
Rights = Mapping[tuple[Object, str], frozenset[str]]


def objects(connection: psycopg.Connection) -> list[Object]:
    """Return all objects of the schema. The columns follow their table."""
    rows = connection.execute(OBJECTS).fetchall()
    found = [Object._make((*row[:5], tuple(row[5]), *row[6:])) for row in rows]
    views = {thing.oid for thing in found if thing.kind == "view"}
    kinds = ("schema", "table", "view", "sequence", "function")

    def place(thing: Object) -> tuple[int, str, int, int]:
        kind = thing.kind if thing.kind != "column" else "view" if thing.oid in views else "table"
        return kinds.index(kind), thing.name, thing.oid, thing.place

    return sorted(found, key=place)


def granted(connection: psycopg.Connection) -> Rights:
    """Ask for each role, object and verb whether the server would allow it."""
    names = {role if role == "public" else f"orchestrator_{role}": role for role in ROLES}
    answers = {}
    for thing in objects(connection):
        for verb in thing.verbs:
            given = {"kind": thing.kind, "oid": thing.oid, "column": thing.column, "verb": verb}
            rows = connection.execute(ASKED, {**given, "roles": list(names)}).fetchall()
            answers[thing, verb] = frozenset(names[role] for (role,) in rows)
    return answers


def tried(session: psycopg.Connection, things: Iterable[Object]) -> dict[tuple[Object, str], bool]:
    """Do each action that can be tried, roll it back, and return whether the server allowed it."""
    columns: dict[int, list[str]] = {}
    things = list(things)
    for thing in things:
        if thing.kind == "column" and not thing.fixed:
            columns.setdefault(thing.oid, []).append(thing.column)
    attempts = {
        (thing, verb): text
        for thing in things
        for verb in thing.verbs
        if (text := attempt(session, thing, verb, columns.get(thing.oid, [])))
    }
    session.execute(VERDICT)
    rows = session.execute(
        "SELECT pg_temp.verdict(s) FROM unnest(%s::text[]) WITH ORDINALITY AS t (s, n) ORDER BY n",
        [list(attempts.values())],
    ).fetchall()
    session.execute("DROP FUNCTION pg_temp.verdict")  # otherwise the role could not be dropped
    verdicts = {text: sqlstate for text, (sqlstate,) in zip(attempts.values(), rows, strict=True)}
    # Any other error would leave the right unknown.
    assert {} == {text: verdict for text, verdict in verdicts.items() if verdict not in (DONE, DENIED)}
    return {key: verdicts[text] == DONE for key, text in attempts.items()}


def attempt(session: psycopg.Connection, thing: Object, verb: str, columns: list[str]) -> str | None:
    """Write the statement for a verb on an object; None if it cannot be tried."""
    kind = "table" if thing.kind in ("view", "column") else thing.kind
    template = ATTEMPTS.get((kind, verb))
    if (
        template is None
        or (thing.fixed and verb != "SELECT")
        or (thing.kind == "view" and verb in ("TRUNCATE", "TRIGGER"))
    ):
        return None
    named = [thing.column] if thing.kind == "column" else columns if verb in ("INSERT", "UPDATE") else []
    return (
        sql.SQL(template)
        .format(
            name=sql.SQL("orchestrator.{}").format(sql.Identifier(relation(session, thing))),
            columns=sql.SQL(", ").join(map(sql.Identifier, named)) if named else sql.SQL("*"),
            nulls=sql.SQL(", ").join([sql.NULL] * len(named)),
            sets=sql.SQL(", ").join(sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in named),
            call=sql.SQL(call(session, thing)),
        )
        .as_string(session)
    )


def relation(session: psycopg.Connection, thing: Object) -> str:
    """Return its name in the catalog. The name of a partition contains its day."""
    row = session.execute("SELECT c.relname FROM pg_class AS c WHERE c.oid = %s", [thing.oid]).fetchone()
    return row[0] if row else thing.name


def call(session: psycopg.Connection, thing: Object) -> str:
    """Write a call of a function with NULL for each argument."""
    row = session.execute(
        "SELECT format('orchestrator.%%I(%%s)', p.proname, (SELECT string_agg('NULL::' || format_type(t, NULL), ', ')"
        " FROM unnest(p.proargtypes) AS t)) FROM pg_proc AS p WHERE p.oid = %s",
        [thing.oid],
    ).fetchone()
    return str(row[0]) if row else ""


def matrix(rights: Rights) -> str:
    """Draw the matrix: a line for each object, and for each column with a right that its table does not have."""
    lines: dict[tuple[str, str, str], str] = {}
    of_table: dict[int, dict[str, frozenset[str]]] = {}
    for thing in dict.fromkeys(thing for thing, _ in rights):
        cells = {verb: rights[thing, verb] for verb in thing.verbs}
        if thing.kind == "column":
            cells = {verb: roles - of_table[thing.oid][verb] for verb, roles in cells.items()}
            if not any(cells.values()):
                continue
        of_table.setdefault(thing.oid, cells)
        letters = [
            "".join(LETTERS[verb] for verb in LETTERS if role in cells.get(verb, ())) for role in ROLES
        ]
        line = f"{thing.title:<36}" + "".join(f"{text or '·':<10}" for text in letters)
        title = (thing.kind, thing.name, thing.part)
        assert lines.setdefault(title, line) == line, f"two that should be alike are not: {line}"
    header = f"{'':<36}" + "".join(f"{role:<10}" for role in ROLES)
    return "".join(f"{line.rstrip()}\n" for line in [header, *lines.values()])
