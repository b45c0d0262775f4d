"""`orchestrator tasks list`: the newest tasks that match, page by page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from orchestrator import observe
from orchestrator.cli import formats
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.table import Column, table
from orchestrator.cli.tasks import no_matches
from orchestrator.cli.tasks.filters import asked, filter_options
from orchestrator.operate import Found, filters, find

COLUMNS = (
    Column("id", right=True),
    Column("status"),
    Column("queue"),
    Column("type"),
    Column("attempt"),
    Column("age", right=True, shown=formats.span),
    Column("error", folds=True),
)
# A search that takes longer is ended: it reads too many rows.
LIST_SECONDS = 15.0


@click.command(name="list")
@filter_options
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most this many."
)
@click.option(
    "--after",
    type=click.IntRange(1, filters.ID_MAX),
    metavar="ID",
    help="Continue after this task: list those with lower ids.",
)
@json_option
@database_option
def listing(limit: int, after: int | None, url: str | None, *, as_json: bool, **given: Any) -> None:
    """List tasks, the highest ids first.

    Without filters it lists all tasks. A filter given twice (--queue a --queue b) matches either value; different
    filters must all match. The age counts from the end of the task, or else from its creation.

    \b
      payload.user_id=42           the number 42
      payload.user_id='"42"'       the text 42
      payload.address.city=Berlin  text; payload."a.b"=1 where a key has dots
    """
    ask = asked(given)
    with connected(url, "tasks list", statement_seconds=LIST_SECONDS) as connection:
        search = ask.at(connection)
        page = find.page(connection, search, after=after, most=limit)
        empty = "" if page.tasks or as_json else no_matches.matches(connection, search)
        now = find.now(connection)
    if as_json:
        table(page.tasks, COLUMNS, as_json=True, empty=empty)
    else:
        table(lines(page.tasks, now), COLUMNS, as_json=False, empty=empty)
        if page.after is not None:
            click.echo(f"there are more: --after {page.after}", err=True)


def lines(tasks: Sequence[Found], now: datetime) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    return [
        {
            "id": task.id,
            "status": task.status,
            "queue": task.queue,
            "type": task.type,
            "attempt": f"{task.attempt}/{task.max_attempts}",
            "age": now - (task.finished_at or task.created_at),
            "error": fault(task),
        }
        for task in tasks
    ]


def fault(task: Found) -> str | None:
    if task.error_class is None and task.error_message is None:
        return None
    text = " ".join(observe.masked_text(task.error_message or "").split())
    return f"{task.error_class or 'error'}: {text[:200]}" if text else task.error_class
