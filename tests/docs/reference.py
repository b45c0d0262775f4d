"""The generated parts of docs/reference/, from the code and a migrated database.

A part stands between two comments:

    <!-- generated: view dead_letters -->
    <!-- end -->

Facts come from the code. The last column of a table is prose, which authors write. The program keeps the prose of a
row as long as the first cell stays the same. `python -m tests.docs.reference` renews all parts in place, with its own
embedded server. tests/docs/test_reference.py checks that the pages are up to date.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

import click
import psycopg

import orchestrator
from orchestrator import Context, Orchestrator, events
from orchestrator.cli import orchestrator as command_line
from orchestrator.cli.group import walked
from orchestrator.config import LEAST, PREFIX, Config
from orchestrator.enqueue import Options
from orchestrator.observe.log import has_line, level_of
from orchestrator.observe.metric_definitions import METRICS
from orchestrator.operate import TaskState
from orchestrator.postgres import embedded
from orchestrator.schema import migrate, tables
from orchestrator.task.backoff import Backoff
from orchestrator.task.columns import OPTIONS
from orchestrator.task.status import TRANSITIONS, ChangedBy, Status
from orchestrator.task.tally import ENDS, ERRORS, MEANINGS, WORDS
from tests import servers
from tests.docs.pages import REPOSITORY
from tests.security.rights import granted, matrix

PART = re.compile(
    r"(?P<opening><!-- generated: (?P<name>[^>]+) -->\n)(?P<body>.*?)(?P<closing><!-- end -->)", re.DOTALL
)
SQLSTATE = re.compile(r"ERRCODE = '(\w{5})'")
WIDTH = 80

# The schema's own functions and triggers, or the leader, call these. Users rarely do.
INNER = (
    "add_histograms", "beacon_is_lost", "notify_workers", "check_payload", "checked_span", "enqueue_alike",
    "enqueue_each", "ensure_queue", "explain_absent", "explain_ended", "explain_held", "explain_ready",
    "explain_scheduled",
    "fill_new_task", "guard_manual_update", "guard_queue", "guard_type", "format_interval", "insert_task", "is_alive",
    "kept_since",    "key_has_passed", "set_home", "name_fault", "set_workplace",
    "place_task", "position_of",
    "purge_attempts", "purge_audit", "purge_dead_letters", "purge_finished", "purge_keys", "purge_statistics",
    "purge_workers", "record_manual_delete", "record_manual_update", "refuse_finished_update", "refuse_new_id",
    "return_key", "ring",
    "row_limit",
    "set_queue_state", "quote_short", "take_key",
    "warn_undeclared", "up_since", "worker_command",
)  # fmt: skip

OUTCOMES = {f"`{word}`": [f"attempts that {meaning}"] for word, meaning in MEANINGS.items()}

# The attributes of a context that are for its worker only.
FOR_THE_WORKER = ("begun_at", "cancel_was_seen", "completion", "is_completing", "result_text", "task")

FUNCTIONS: LiteralString = """
    SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
    FROM pg_proc AS p
    WHERE p.pronamespace = 'orchestrator'::regnamespace
    ORDER BY p.proname
"""
COLUMNS: LiteralString = """
    SELECT c.relname, c.relkind = 'v', a.attname, format_type(a.atttypid, a.atttypmod)
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
        AND c.relname <> 'alembic_version'
    ORDER BY c.relname, a.attnum
"""

# Takes the text of a part and returns its new text.
Writer = Callable[[str], str]


def renewed(text: str, writers: dict[str, Writer]) -> str:
    """Return a page with all generated parts renewed. An unknown part is an error."""

    def anew(part: re.Match[str]) -> str:
        return part["opening"] + writers[part["name"]](part["body"]) + part["closing"]

    return PART.sub(anew, text)


def parts(text: str) -> list[str]:
    """Return the names of a page's generated parts."""
    return [part["name"] for part in PART.finditer(text)]


def all_writers(connection: psycopg.Connection[Any]) -> dict[str, dict[str, Writer]]:
    """Return, for each reference page, the names of its parts and their writers."""
    return {
        "docs/reference/sql.md": sql_writers(connection),
        "docs/reference/python.md": python_writers(),
        "docs/reference/rights.md": {"rights": constant(f"```text\n{matrix(granted(connection))}```\n")},
        "docs/reference/settings.md": {"settings": settings},
        "docs/reference/events.md": {"events": constant(events_table())},
        "docs/reference/metrics.md": {"metrics": constant(metrics_table())},
        "docs/howto/statistics.md": {"outcomes": constant(outcomes_table())},
        "docs/reference/cli.md": {
            f"command {name}": helper(command, name) for name, command in all_commands()
        },
    }


def sql_writers(connection: psycopg.Connection[Any]) -> dict[str, Writer]:
    writers: dict[str, Writer] = {"transitions": lambda _: transitions(), "sqlstates": sqlstates}
    inner: list[list[str]] = []
    for name, arguments, result in connection.execute(FUNCTIONS).fetchall():
        if name in INNER:
            inner.append([f"`{name}`", f"`{short(arguments)}`" if arguments else "–", f"`{short(result)}`"])
        else:
            writers[f"function {name}"] = constant(signature(name, short(arguments), short(result)))
    writers["inner functions"] = table_writer(["Function", "Arguments", "Returns", "What it does"], inner)
    columns: dict[str, list[list[str]]] = {}
    for relation, is_view, name, kind in connection.execute(COLUMNS).fetchall():
        part = f"{'view' if is_view else 'table'} {relation}"
        columns.setdefault(part, []).append([f"`{name}`", f"`{short(kind)}`"])
    for part, rows in columns.items():
        known = {f"`{option.column}`": option.meaning for option in OPTIONS} if part == "table tasks" else {}
        if part.startswith("table statistics"):
            rows = [[*row, *OUTCOMES.get(row[0], ())] for row in rows]
        writers[part] = table_writer(["Column", "Type", "Meaning"], rows, known)
    writers["columns of a new task"] = constant(new_columns())
    return writers


def new_columns() -> str:
    names = ["type", "payload", *(option.column for option in OPTIONS if option.column)]
    return ", ".join(f"`{name}`" for name in names) + ".\n"


def python_writers() -> dict[str, Writer]:
    names = [[f"`{name}`", kind_of(getattr(orchestrator, name))] for name in orchestrator.__all__]
    task = [
        [f"`{name}`", f"`{parameter.default}`"]
        for name, parameter in inspect.signature(Orchestrator.task).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    return {
        "names": table_writer(["Name", "Kind", "What it is"], names),
        "task options": table_writer(["Option", "Default", "Meaning"], task),
        "using options": table_writer(
            ["Option", "Type", "Meaning"],
            fields_of(Options),
            {f"`{option.name}`": option.meaning for option in OPTIONS},
        ),
        "task state": table_writer(["Field", "Type", "Meaning"], fields_of(TaskState)),
        "context": table_writer(["Attribute", "Type", "Meaning"], properties_of(Context)),
        "backoff": table_writer(["Field", "Default", "Meaning"], defaults_of(Backoff)),
        "exceptions": constant(drawing()),
        "sqlalchemy tables": constant(sqlalchemy_tables()),
    }


def events_table() -> str:
    """Return the table of events. The docstring of an event tells when it happens."""
    made = (kind for kind in vars(events).values() if isinstance(kind, type) and kind in events.kinds())
    rows = [
        [
            f"`{kind.__name__}`",
            ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)),
            level_of(kind) if has_line(kind) else "–",
            one_line(inspect.getdoc(kind) or ""),
        ]
        for kind in sorted(made, key=lambda kind: (kind.__module__, kind.__name__))
    ]
    header = ["Event", "Fields", "Level of its line", "When"]
    return lines_of([header, ["---"] * len(header), *rows])


def metrics_table() -> str:
    """Return the table of metrics."""
    rows = [
        [f"`{one.full_name}`", one.kind, ", ".join(f"`{name}`" for name in one.labels) or "–", one.what]
        for one in METRICS
    ]
    header = ["Metric", "Kind", "Labels", "What it is"]
    return lines_of([header, ["---"] * len(header), *rows])


def outcomes_table() -> str:
    """Return the table of the outcomes of an attempt."""
    counts = {word: "as an error" if word in ERRORS else "yes" if word in ENDS else "–" for word in WORDS}
    header = ["Column", "The attempt", "Counts for `error_rate`"]
    rows = [[f"`{word}`", MEANINGS[word], counts[word]] for word in WORDS]
    return lines_of([header, ["---"] * len(header), *rows])


def sqlalchemy_tables() -> str:
    """Return the table of the SQLAlchemy tables, with their columns."""
    rows = [
        [f"`tables.{one.name}`", ", ".join(f"`{column.name}`" for column in one.columns)]
        for one in sorted(tables.metadata.tables.values(), key=lambda one: str(one.name))
    ]
    return lines_of([["Table", "Columns"], ["---"] * 2, *rows])


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def settings(body: str) -> str:
    rows = [
        [f"`{field.name}`", f"`{PREFIX}{field.name.upper()}`", default_text(field.default), least(field.name)]
        for field in dataclasses.fields(Config)
    ]
    return table(body, ["Setting", "Variable", "Default", "At least", "Meaning"], rows)


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the command and its subcommands, with the words that call them."""
    yield "orchestrator", command_line
    for name, command in walked(command_line):
        yield f"orchestrator {name}", command


def helper(command: click.Command, name: str) -> Writer:
    """Return a writer for the output of --help on a terminal of a fixed width."""
    context = click.Context(
        command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    return constant(f"```text\n{command.get_help(context)}\n```\n")


def transitions() -> str:
    """Return the table of TRANSITIONS. Another test compares TRANSITIONS with the database."""
    header = ["from ＼ to", *(f"`{status}`" for status in Status)]
    rows = [[f"`{old}`", *(who(TRANSITIONS[old].get(new, ChangedBy(0))) for new in Status)] for old in Status]
    return lines_of([header, ["---"] * len(header), *rows])


def who(may: ChangedBy) -> str:
    return " · ".join(str(one.name).lower() for one in ChangedBy if one in may)


def sqlstates(body: str) -> str:
    raised: dict[str, list[str]] = {}
    for path in sorted((REPOSITORY / "orchestrator" / "schema" / "functions").glob("*.sql")):
        for code in sorted(set(SQLSTATE.findall(path.read_text()))):
            raised.setdefault(code, []).append(f"`{path.stem}`")
    rows = [[f"`{code}`", ", ".join(names)] for code, names in sorted(raised.items(), key=in_order)]
    return table(body, ["SQLSTATE", "Raised in", "When"], rows)


def in_order(pair: tuple[str, list[str]]) -> tuple[bool, str]:
    return not pair[0].startswith("OR"), pair[0]


def signature(name: str, arguments: str, result: str) -> str:
    """Write a function's signature; if it is long, with one argument per line."""
    # A comma inside numeric(…) or a default would split wrongly. No signature has one; the page would show it.
    split = arguments.split(", ")
    inside = arguments if len(arguments) <= WIDTH else "\n    " + ",\n    ".join(split) + "\n"
    return f"```text\norchestrator.{name}({inside}) → {result}\n```\n"


def short(text: str) -> str:
    """Shorten the names of types, and remove the casts of defaults."""
    return re.sub(
        r"(DEFAULT [^,:]+)::[a-z ]+(?:\[\])?", r"\1", text.replace("timestamp with time zone", "timestamptz")
    )


def table_writer(
    header: Sequence[str], rows: Sequence[Sequence[str]], known: Mapping[str, str] | None = None
) -> Writer:
    return lambda body: table(body, header, rows, known or {})


def table(
    body: str, header: Sequence[str], rows: Sequence[Sequence[str]], known: Mapping[str, str] | None = None
) -> str:
    """Write a table. The prose of a row comes from the old row with the same first cell, else from `known`."""
    prose = {cells[0]: cells[-1] for line in body.splitlines() if len(cells := cells_of(line)) > 1}
    full = [
        row if len(row) == len(header) else [*row, prose.get(row[0]) or (known or {}).get(row[0], "")]
        for row in rows
    ]
    return lines_of([header, ["---"] * len(header), *full])


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def lines_of(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def empty_cells(text: str) -> list[str]:
    """Return the rows of generated tables without prose."""
    return [
        line
        for part in PART.finditer(text)
        if part["name"] != "transitions"
        for line in part["body"].splitlines()
        if (cells := cells_of(line)) and not cells[-1]
    ]


def fields_of(kind: type) -> list[list[str]]:
    return [
        [f"`{field.name}`", f"`{annotation(field.type)}`"]
        for field in dataclasses.fields(kind)
        if not field.name.startswith("_")
    ]


def properties_of(kind: type) -> list[list[str]]:
    return [
        [f"`{name}`", f"`{annotation(found.fget.__annotations__['return'])}`"]
        for name, found in vars(kind).items()
        if isinstance(found, property) and name not in FOR_THE_WORKER
    ]


def annotation(kind: object) -> str:
    """Write a type without module names. Escape the bar, because it would end the cell of the table."""
    return re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(kind)).replace("|", "\\|")


def defaults_of(kind: type) -> list[list[str]]:
    return [[f"`{field.name}`", f"`{field.default}`"] for field in dataclasses.fields(kind)]


def default_text(default: object) -> str:
    match default:
        case "":
            return "none: must be given"
        case None:
            return "none"
        case bool():
            return f"`{str(default).lower()}`"
        case tuple():
            return f"`{','.join(map(str, default))}`" if default else "those of the application's tasks"
        case float():
            return f"`{default:g}`"
        case _:
            return f"`{default}`"


def least(name: str) -> str:
    return f"`{LEAST[name]:g}`" if name in LEAST else "–"


def kind_of(value: object) -> str:
    if isinstance(value, type) and issubclass(value, BaseException):
        return "error" if issubclass(value, orchestrator.OrchestratorError) else "signal"
    return "class"


def drawing() -> str:
    """Return the tree of exceptions from the docstring of errors.py."""
    lines = (inspect.getdoc(inspect.getmodule(orchestrator.OrchestratorError)) or "").splitlines()
    drawn = [line[4:] for line in lines if line.startswith("    ") or not line]
    return "```text\n" + "\n".join(drawn).strip("\n") + "\n```\n"


def constant(text: str) -> Writer:
    return lambda _: text


def main() -> None:
    """Renew all pages."""
    with servers.temporary_directory() as folder:
        url = embedded.start(folder)
        try:
            migrate.upgrade(url)
            with psycopg.connect(url) as connection:
                for name, writers in all_writers(connection).items():
                    page = Path(REPOSITORY / name)
                    page.write_text(renewed(page.read_text(), writers))
        finally:
            embedded.release(folder)
            servers.wait_until_free(folder / "server.lock")


if __name__ == "__main__":
    main()
