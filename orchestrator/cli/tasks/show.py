"""`orchestrator tasks show`: everything on record about one task."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import click

from orchestrator import operate
from orchestrator.cli import formats, masked_json
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.table import Column, as_records, print_json, table
from orchestrator.cli.table import show as lay
from orchestrator.cli.tasks.filters import typed
from orchestrator.errors import TaskExpired
from orchestrator.observe import printable
from orchestrator.operate import Attempt, Detail, Moment, Task, filters

# What fits on a few screens; --full shows all.
CHARACTERS_MAX = 4_000

TIMELINE = (Column("at"), Column("event"), Column("detail", folds=True), Column("by", folds=True))
JSON_FIELDS = ("payload", "metadata", "result", "progress", "trace_context")


@click.command()
@click.argument("task", metavar="ID")
@click.option("--full", is_flag=True, help="Show whole payloads, results and tracebacks.")
@click.option("--unmasked", is_flag=True, help="Show the values of keys that look like secrets.")
@json_option
@database_option
def show(task: str, url: str | None, *, full: bool, unmasked: bool, as_json: bool) -> None:
    """Show a task: payload, timeline, every failed attempt, traceback.

    For a deleted task it shows what is still on record. Values whose key looks like a secret (password, token, …) are
    masked.
    """
    with typed():
        task_id = filters.task_id(task)
    with connected(url, "tasks show") as connection:
        detail = operate.detail(connection, task_id)
    if detail.task is None and not detail.timeline and not detail.attempts:
        raise TaskExpired(task_id)
    if as_json:
        print_json(as_document(detail, unmasked=unmasked))
    else:
        screens(task_id, detail, full=full, unmasked=unmasked)


def screens(task_id: int, detail: Detail, *, full: bool, unmasked: bool) -> None:
    """Print the task, and the error last, where the terminal shows it."""
    if detail.task is None:
        click.echo(f"task {task_id} is gone: deleted, or removed by retention; this is on record")
    else:
        heads(detail.task)
        for name in JSON_FIELDS:
            json_field(name, detail.task, full=full, unmasked=unmasked)
    heading("timeline")
    table([moment(each, unmasked=unmasked) for each in detail.timeline], TIMELINE, as_json=False, empty="-")
    for attempt in detail.attempts:
        heading(f"attempt {attempt.attempt}, {attempt.outcome}")
        click.echo(f"{formats.moment(attempt.started_at)} to {formats.moment(attempt.finished_at)}")
        if attempt.error_class is not None:
            error(attempt, full=full, unmasked=unmasked)
    if detail.task is not None and detail.task.error_class is not None and not repeated(detail):
        heading("last error")
        error(detail.task, full=full, unmasked=unmasked)


def heads(task: Task) -> None:
    click.echo(click.style(f"task {task.id}  {printable(task.status)}", bold=True))
    names, values = zip(*facts(task), strict=True)
    lay(as_records([Column(name) for name in names], [[printable(value) for value in values]]))


def facts(task: Task) -> Iterator[tuple[str, str]]:
    yield "type", task.type
    yield "queue", f"{task.queue}, priority {task.priority}"
    losses = f", lost {task.losses} times" if task.losses else ""
    yield "attempt", f"{task.attempt} of {task.max_attempts}{losses}, timeout {formats.span(task.timeout)}"
    for name in ("created", "run", "claimed", "started", "finished"):
        if (at := getattr(task, f"{name}_at")) is not None:
            yield f"{name} at", formats.moment(at)
    if task.worker_id is not None:
        place = f" ({task.worker_host}, pid {task.worker_pid})" if task.worker_host else ""
        yield "worker", f"{task.worker_id}{place}"
    if task.key is not None:
        yield "key", task.key
    if task.tags:
        yield "tags", ", ".join(task.tags)


def json_field(name: str, task: Task, *, full: bool, unmasked: bool) -> None:
    text = getattr(task, name)
    if text is None:
        if name == "payload":
            heading(name)
            click.echo(f"{task.payload_bytes:,} bytes as text, which is more than is read here; ask in SQL")
        return
    heading(name)
    shown(masked_json.pretty(text, unmasked=unmasked), full=full)


def error(failed: Task | Attempt, *, full: bool, unmasked: bool) -> None:
    text = f"{failed.error_class or 'no error class'}: {failed.error_message or ''}"
    text = failed.error_traceback or text
    shown(text if unmasked else masked_json.hidden_text(text), full=full)


def repeated(detail: Detail) -> bool:
    """Return whether the last attempt on record has the task's error."""
    assert detail.task is not None  # nosec B101 # noqa: S101 - for the type checker: the caller has looked
    last = detail.attempts[-1] if detail.attempts else None
    return last is not None and last.error_message == detail.task.error_message


def moment(each: Moment, *, unmasked: bool) -> Mapping[str, Any]:
    detail = each.detail if unmasked or each.detail is None else masked_json.hidden_text(each.detail)
    return {
        "at": each.at,
        "event": each.event,
        "detail": detail and " ".join(detail.split())[:500],
        "by": each.actor,
    }


def heading(text: str) -> None:
    click.echo("\n" + click.style(text, bold=True))


def shown(text: str, *, full: bool) -> None:
    """Print a text. Without --full, leave out the middle of a long one: the ends of a traceback say the most."""
    if not full and len(text) > CHARACTERS_MAX:
        half = CHARACTERS_MAX // 2
        left_out = f"… {len(text) - CHARACTERS_MAX:,} characters left out; --full shows them …"
        text = f"{text[:half]}\n{left_out}\n{text[-half:]}"
    click.echo(printable(text.rstrip("\n"), keeping="\n\t"))


def as_document(detail: Detail, *, unmasked: bool) -> dict[str, Any]:
    """Return the whole detail as one JSON object."""
    task = None if detail.task is None else dataclasses.asdict(detail.task)
    if task is not None:
        for name in JSON_FIELDS:
            if task[name] is not None:
                task[name] = masked_json.value(task[name], unmasked=unmasked)
    return {
        "task": masked(task, unmasked=unmasked),
        "timeline": [masked(dataclasses.asdict(each), unmasked=unmasked) for each in detail.timeline],
        "attempts": [masked(dataclasses.asdict(each), unmasked=unmasked) for each in detail.attempts],
    }


def masked(fields: dict[str, Any] | None, *, unmasked: bool) -> dict[str, Any] | None:
    """Mask secrets in the text of errors. The JSON fields are masked already."""
    if fields is None or unmasked:
        return fields
    return {
        name: masked_json.hidden_text(value)
        if name in ("error_message", "error_traceback", "detail") and value
        else value
        for name, value in fields.items()
    }
