"""Run the blocks of one page. They share a folder, a database, a Python namespace and the environment of the shell."""

import ast
import asyncio
import inspect
import io
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors, pq, sql

from orchestrator import Orchestrator
from orchestrator.postgres import embedded
from tests.docs import commands as shell
from tests.docs.pages import Block, commands, statements

NUMBERS = {20, 21, 23, 700, 701, 1700}
"""The types that psql aligns to the right of their column."""


class Session:
    """Runs the blocks of a page as a reader does, from the top to the bottom."""

    def __init__(self, url: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._notices: list[str] = []
        self._opened: psycopg.Connection | None = None
        self._roles: set[str] = set()
        self._namespace: dict[str, Any] = {"__name__": "page"}
        self._runner = asyncio.Runner()
        self._environment = {**environment, "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
        self._environment |= {"ORCHESTRATOR_DATABASE_URL": url, "COLUMNS": "100", "PWD": str(folder)}

    def run(self, block: Block) -> list[tuple[str | None, str]]:
        """Run a block; return pairs of the output that the page shows (None if it shows none) and the actual output."""
        match block:
            case Block(language="python", file=str(name)):
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
                return []
            case Block(language="python"):
                return [(block.output, self._python(block))]
            case Block(language="sql"):
                return [(block.output, self._sql(block.text, may_fail="ERROR:" in (block.output or "")))]
            case Block(language="console"):
                return [(expected, self._console(command)) for command, expected in commands(block.text)]
            case _:
                return []

    def close(self) -> None:
        """Close the connections of the page, and drop its roles, because roles belong to the whole server."""
        for value in list(self._namespace.values()):
            if isinstance(value, Orchestrator):
                self._runner.run(value.aclose())
                value.close()
            elif isinstance(value, psycopg.Connection):
                value.close()
            elif isinstance(value, psycopg.AsyncConnection):
                self._runner.run(value.close())
        self._runner.close()
        if self._opened is not None:
            with self._opened as connection:
                connection.execute("RESET ROLE")
                for role in roles(connection) - self._roles:
                    with suppress(errors.UndefinedObject):
                        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
            embedded.release(self._embedded)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(f"{self._folder}/"):
                del sys.modules[name]

    @property
    def _connection(self) -> psycopg.Connection:
        """The session for ```sql blocks. The first block opens it on the database of the environment."""
        if self._opened is None:
            url = self._environment["ORCHESTRATOR_DATABASE_URL"]
            if url.startswith("embedded:"):
                url = embedded.start(self._embedded)
            self._opened = psycopg.connect(url, autocommit=True)
            self._opened.add_notice_handler(self._noticed)
            self._roles = roles(self._opened)
        return self._opened

    @property
    def _embedded(self) -> Path:
        """The folder of the embedded server, if the page has one."""
        path = self._environment["ORCHESTRATOR_DATABASE_URL"].removeprefix("embedded:")
        return Path(self._environment["PWD"], path)

    def _python(self, block: Block) -> str:
        """Run a block like a module, except that it may use await."""
        code = compile(block.text, f"line {block.line}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(awaited(eval(code, self._namespace)))  # noqa: S307 - our own pages
            else:
                exec(code, self._namespace)  # noqa: S102 - our own pages
        return printed.getvalue()

    def _sql(self, text: str, *, may_fail: bool) -> str:
        printed: list[str] = []
        for statement in statements(text):
            try:
                cursor = self._connection.execute(statement.encode())
            except psycopg.Error as error:
                if not may_fail:
                    raise
                answer = refusal(error.diag)
            else:
                answer = table(cursor)
            printed += [*self._notices, answer]
            self._notices.clear()
        return "\n".join(printed)

    def _console(self, command: str) -> str:
        # A worker would run until the reader stops it, so we add --until-empty.
        if "orchestrator worker " in command and "--until-empty" not in command:
            command += " --until-empty"
        kept = self._folder / ".environment"
        folder = Path(self._environment["PWD"])
        status, printed, after = shell.run(command, folder=folder, environment=self._environment, kept=kept)
        kept.unlink(missing_ok=True)
        assert status == 0, f"$ {command}\n{printed}\nended with {status}"
        self._environment = after
        return printed

    def _noticed(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        self._notices.append(f"{diagnostic.severity}:  {diagnostic.message_primary}")
        if diagnostic.message_hint:
            self._notices.append(f"HINT:  {diagnostic.message_hint}")


def roles(connection: psycopg.Connection) -> set[str]:
    """Return the server's roles without the roles of our schema: grants in other databases depend on those."""
    names = connection.execute("SELECT rolname FROM pg_roles WHERE rolname NOT LIKE 'orchestrator\\_%'")
    return {name for (name,) in names.fetchall()}


async def awaited(coroutine: Any) -> None:
    await coroutine


def bare_environment() -> dict[str, str]:
    """Return the environment without our variables: each page sets its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATOR_")}


def refusal(diagnostic: psycopg.errors.Diagnostic) -> str:
    """Format an error as psql does with VERBOSITY verbose: the SQLSTATE before the message."""
    lines = [f"ERROR:  {diagnostic.sqlstate}: {diagnostic.message_primary}"]
    if diagnostic.message_hint:
        lines.append(f"HINT:  {diagnostic.message_hint}")
    return "\n".join(lines)


def table(cursor: psycopg.Cursor[Any]) -> str:
    """Format a result as psql does."""
    result = cursor.pgresult
    assert result is not None
    if result.status != pq.ExecStatus.TUPLES_OK:
        return cursor.statusmessage or ""
    names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
    rows = [
        [(result.get_value(row, n) or b"").decode() for n in range(result.nfields)]
        for row in range(result.ntuples)
    ]
    widths = [max(len(text) for text in column) for column in zip(names, *rows, strict=True)]
    lines = [" | ".join(name.center(width) for name, width in zip(names, widths, strict=True))]
    lines.append("-+-".join("-" * width for width in widths))
    for row in rows:
        cells = zip(row, widths, range(result.nfields), strict=True)
        lines.append(
            " | ".join(
                cell.rjust(width) if result.ftype(n) in NUMBERS else cell.ljust(width)
                for cell, width, n in cells
            )
        )
    lines.append(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
    if not (cursor.statusmessage or "").startswith("SELECT"):
        lines.append(cursor.statusmessage or "")
    return "\n".join(f" {line}".rstrip() if line[:1] != "(" else line for line in lines)
