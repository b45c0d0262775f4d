"""From the second revision on the schema only grows: workers of the previous release must work on the new schema.

A revision that removes something declares itself a contraction: it raises settings.oldest_code. Then older code no
longer starts, and the revision may remove what only that code needed. No revision may wait long for a lock, because
all later statements would wait behind it.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.house.parsing import parsed

FOUNDATION = "0001"

COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
STRING = re.compile(r"'(?:[^']|'')*'")
LARGE = r"(?:ONLY\s+)?orchestrator\.(?P<table>tasks\w*|attempts|audit|idempotency_keys)\b"
FUNCTION = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\s+orchestrator\.(?P<name>\w+)\s*\((?P<arguments>.*?)\)\s*"
    r"(?:RETURNS\s+(?P<result>.*?))?\s*(?:LANGUAGE|AS\s+\$)",
    re.IGNORECASE | re.DOTALL,
)
DROPPED = re.compile(
    r"DROP\s+(?P<kind>FUNCTION|VIEW|TRIGGER)\s+(?:orchestrator\.)?(?P<name>\w+)(?:\s+ON\s+(?P<table>\S+))?$",
    re.IGNORECASE,
)
CREATED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?P<kind>FUNCTION|VIEW|TRIGGER)\s+(?:orchestrator\.)?(?P<name>\w+)"
    r"(?:.*?\sON\s+(?P<table>orchestrator\.\w+)\s+(?:FROM|NOT|DEFERRABLE|INITIALLY|REFERENCING|FOR|WHEN|EXECUTE)\b)?",
    re.IGNORECASE,
)
DEFAULT = re.compile(r"\s*(?:\bDEFAULT\b|=).*", re.IGNORECASE | re.DOTALL)
RESULT_COLUMNS = re.compile(r"TABLE\s*\((?P<columns>.*)\)", re.IGNORECASE | re.DOTALL)
CREATED_TABLE = re.compile(r"\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?orchestrator\.(\w+)", re.IGNORECASE)
LOCK_TIMEOUT = re.compile(r"\s*SET\s+LOCAL\s+lock_timeout\s*(?:=|TO)\s*\S", re.IGNORECASE)
OLDEST_CODE = re.compile(r"UPDATE\s+orchestrator\.settings\s+SET\s+oldest_code\s*=\s*(\d+)", re.IGNORECASE)
ADDED_COLUMN = re.compile(
    r"\bADD\s+(?:COLUMN\s+)?(?!CONSTRAINT\b|CHECK\b|PRIMARY\b|UNIQUE\b|FOREIGN\b)\w", re.IGNORECASE
)
CONSTANT = r"(?:NULL|TRUE|FALSE|''|[\d.]+|orchestrator\.clock\(\)|now\(\)|current_\w+|session_user)"

GONE = "removes what older code uses"
BREAKS = [
    (r"\bDROP\s+(?:TABLE|VIEW|SEQUENCE|COLUMN|FUNCTION|SCHEMA|TYPE|TRIGGER|DOMAIN|INDEX)\b", GONE),
    # A column, without the word COLUMN.
    (r"\bALTER\s+TABLE\b.*\bDROP\s+(?!CONSTRAINT\b|DEFAULT\b|NOT\b|EXPRESSION\b|IDENTITY\b)\w", GONE),
    (r"\bTRUNCATE\b", GONE),
    (r"\bRENAME\b", "renames what older code uses by its old name"),
    (r"\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b", "changes a type that older code uses"),
    (
        r"\bADD\s+(?:CONSTRAINT|CHECK|FOREIGN)\b(?!.*\bNOT\s+VALID\b)",
        "reads the whole table under a lock, because NOT VALID is missing",
    ),
]
"""Patterns of forbidden statements, with the reason. They match statements without comments, strings and bodies."""


@dataclass(frozen=True)
class Signature:
    """How a function is called and what it returns."""

    arguments: tuple[str, ...]
    columns: tuple[str, ...]
    result: str

    @classmethod
    def of(cls, arguments: str, result: str | None) -> Self:
        """Read what stands in CREATE FUNCTION, with OUT arguments or RETURNS TABLE as the columns of the result."""
        table = RESULT_COLUMNS.fullmatch(result or "")
        given, columns = listed(arguments), listed(table["columns"]) if table else []
        out = [DEFAULT.sub("", one).removeprefix("IN") for one in given if one.startswith(("OUT ", "INOUT "))]
        return cls(
            # Whether an argument has a default matters, and not which.
            arguments=tuple(DEFAULT.sub(" DEFAULT", one) for one in given if not one.startswith("OUT ")),
            columns=(*columns, *(one.removeprefix("OUT ") for one in out)),
            result="TABLE" if table else " ".join((result or "").split()),
        )

    def extends(self, old: Self) -> bool:
        """Return whether every call of the old function is a call of this one, with the old columns in its result.

        A result of one column may be used as a value, so it stays one.
        """
        n = len(old.arguments)
        kept = [column for column in self.columns if column in old.columns]
        return (
            self.arguments[:n] == old.arguments
            and all(one.endswith(" DEFAULT") for one in self.arguments[n:])
            and kept == list(old.columns)
            and (len(old.columns) != 1 or self.columns == old.columns)
            and self.result == old.result
        )


def listed(text: str) -> list[str]:
    """Split a list at its commas, but not inside of parentheses."""
    return [" ".join(one.split()) for one in re.split(r",(?![^(]*\))", text) if one.strip()]


@dataclass(frozen=True)
class Revision:
    """One revision of the schema, and the SQL of its upgrade."""

    name: str
    sql: str
    other_calls: list[str]

    @property
    def number(self) -> int:
        return int(self.name[:4])

    @property
    def bare(self) -> str:
        """The SQL without bodies, comments and strings; bodies first, because they have comments and strings, too."""
        return STRING.sub("''", COMMENT.sub("", BODY.sub("$$", self.sql)))

    @property
    def statements(self) -> list[str]:
        return [" ".join(part.split()) for part in self.bare.split(";") if part.strip()]

    @property
    def signatures(self) -> dict[str, Signature]:
        return {
            one["name"]: Signature.of(one["arguments"], one["result"]) for one in FUNCTION.finditer(self.bare)
        }

    @property
    def dropped(self) -> set[tuple[str, str]]:
        return {named(found) for one in self.statements if (found := DROPPED.match(one))}

    @property
    def replaced(self) -> set[tuple[str, str]]:
        """What it drops and creates again, because CREATE OR REPLACE cannot change it."""
        found: set[tuple[str, str]] = set()
        # The last statement counts.
        for one in self.statements:
            if dropped := DROPPED.match(one):
                found.discard(named(dropped))
            elif (created := CREATED.match(one)) and named(created) in self.dropped:
                found.add(named(created))
        return found

    @property
    def contracts_to(self) -> int | None:
        raised = OLDEST_CODE.search(COMMENT.sub("", self.sql))
        return int(raised[1]) if raised else None


def revisions(versions: Path) -> list[Revision]:
    """Read every revision: its module, and the SQL in the folder of the same name."""
    found = []
    for module in sorted(versions.glob("[0-9]*.py")):
        files = sorted(versions.glob(f"{module.stem}/[0-9]_*.sql"))
        written = [*calls(module, "upgrade", {"execute"}), *(file.read_text() for file in files)]
        other = [name for name, _ in called(parsed(module)) if name != "execute"]
        found.append(Revision(module.stem, ";\n".join(written), other))
    return found


def calls(module: Path, function: str, names: set[str]) -> list[str]:
    """Return the strings that a function of the module passes to these functions of alembic."""
    return [
        argument.value
        for node in parsed(module).body
        if isinstance(node, ast.FunctionDef) and node.name == function
        for name, call in called(node)
        if name in names
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `op.…` inside a node."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="op"), attr=name)):
                yield name, node


def faults(versions: Path) -> list[str]:
    """Name the statements of later revisions that break older code or harm a busy database."""
    found: list[str] = []
    known: dict[str, Signature] = {}
    for revision in revisions(versions):
        if not revision.name.startswith(FOUNDATION):
            found_here = [*always(revision)]
            lowered = revision.contracts_to
            if lowered is None:
                found_here += [*breaking(revision), *overloads(revision, known)]
            elif not 1 < lowered <= revision.number:
                found_here.append(f"oldest_code {lowered}: names neither this revision nor one before it")
            found += [f"{revision.name}: {one}" for one in found_here]
        known = {name: one for name, one in known.items() if ("FUNCTION", name) not in revision.dropped}
        known |= revision.signatures
    return found


def always(revision: Revision) -> Iterator[str]:
    """Yield the faults that are forbidden even in a contraction."""
    yield from (f"op.{name}: write SQL in the folder of the same name" for name in revision.other_calls)
    if not revision.statements or not LOCK_TIMEOUT.match(revision.statements[0]):
        yield "does not begin with SET LOCAL lock_timeout: a wait for a lock would block all later statements"
    new = set(CREATED_TABLE.findall(" ".join(revision.statements)))
    for statement in revision.statements:
        if re.search(r"\bCONCURRENTLY\b", statement, re.IGNORECASE):
            yield f"{short(statement)}: cannot run in a transaction, and a revision is one"
        if re.match(rf"(?:UPDATE|DELETE\s+FROM|INSERT\s+INTO)\s+{LARGE}", statement, re.IGNORECASE):
            yield f"{short(statement)}: writes the rows of a large table in one transaction"
        index = re.search(
            rf"\bCREATE\s+(?:UNIQUE\s+)?INDEX\b(?!\s+CONCURRENTLY).*?\bON\s+{LARGE}", statement, re.IGNORECASE
        )
        if index and index["table"] not in new:
            yield f"{short(statement)}: writers of a large table wait during the build of the index"
        table = re.search(rf"\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?{LARGE}", statement, re.IGNORECASE)
        home = re.search(r"\bALTER\s+TABLE\s+orchestrator\.home\b", statement, re.IGNORECASE)
        if (home or (table and table["table"] not in new)) and rewrites(statement):
            yield f"{short(statement)}: rewrites every row of the table"
        if (
            table
            and table["table"] not in new
            and re.search(r"\b(?:UNIQUE|PRIMARY\s+KEY)\b", statement, re.IGNORECASE)
        ):
            yield f"{short(statement)}: writers of a large table wait during the build of the index"


def rewrites(statement: str) -> bool:
    return any(
        re.search(r"\bSTORED\b", clause, re.IGNORECASE)
        or re.search(rf"\bDEFAULT\s+(?!{CONSTANT}(?:::\w+)?(?:\s|$))", clause, re.IGNORECASE)
        for clause in added_columns(statement)
    )


def breaking(revision: Revision) -> Iterator[str]:
    """Yield the faults that only a contraction may contain."""
    text = " ; ".join(revision.statements)
    for statement in revision.statements:
        if (found := DROPPED.match(statement)) and named(found) in revision.replaced:
            continue
        for pattern, why in BREAKS:
            if re.search(pattern, statement, re.IGNORECASE):
                yield f"{short(statement)}: {why}"
                break
        for clause in added_columns(statement):
            if re.search(r"\bNOT\s+NULL\b", clause, re.IGNORECASE) and not re.search(
                r"\bDEFAULT\b|\bGENERATED\b", clause, re.IGNORECASE
            ):
                yield f"{short(statement)}: older code leaves the new column out, and it has no default"
        for column in re.findall(
            r"\bALTER\s+(?:COLUMN\s+)?(\w+)\s+SET\s+NOT\s+NULL\b", statement, re.IGNORECASE
        ):
            if not re.search(rf"\b{column}\b[^,;]*\bDEFAULT\s", text, re.IGNORECASE):
                yield f"{short(statement)}: older code may leave it out, and it has no default"


def overloads(revision: Revision, known: dict[str, Signature]) -> Iterator[str]:
    """Yield each function that has another signature than the one of its name before."""
    for name, new in revision.signatures.items():
        old = known.get(name, new)
        if new == old:
            continue
        if ("FUNCTION", name) not in revision.replaced:
            why = "a second function of this name makes calls ambiguous; drop the first"
            yield f"{name}({', '.join(new.arguments)}): {why}"
        elif not new.extends(old):
            yield f"{name}({', '.join(new.arguments)}): older code calls it as {name}({', '.join(old.arguments)})"


def added_columns(statement: str) -> list[str]:
    """Return the clauses of a statement that add a column to an existing table."""
    if not re.match(r"ALTER\s+TABLE\b", statement, re.IGNORECASE):
        return []
    # Split at each comma that begins a new action, and keep the actions that add a column.
    clauses = re.split(r",\s*(?=(?:ADD|ALTER|DROP|SET|VALIDATE)\b)", statement, flags=re.IGNORECASE)
    return [clause for clause in clauses if ADDED_COLUMN.search(clause)]


def named(found: re.Match[str]) -> tuple[str, str]:
    """Return its kind and name, and the table of a trigger."""
    return found["kind"].upper(), found["name"] + (f" ON {found['table']}" if found["table"] else "")


def short(statement: str) -> str:
    return statement if len(statement) <= 70 else f"{statement[:67]}…"
