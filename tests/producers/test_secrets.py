"""A payload never appears in an error: neither in its text nor in its causes, with any wrapper."""

import traceback
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest

from orchestrator.errors import EnqueueRefused, PayloadRefused, SchemaError
from tests.producers.every_holder import ALL_KINDS, enqueue, enqueue_many

SECRET = "hunter2"  # noqa: S105 - it is meant to be looked for

# What a server may be told to print into its errors, and how long it waits for a lock.
SETTINGS = """
    DO $$
    BEGIN
        EXECUTE format('ALTER DATABASE %I SET log_parameter_max_length_on_error = -1', current_database());
        EXECUTE format('ALTER DATABASE %I SET lock_timeout = 50', current_database());
    END
    $$
"""

# What goes wrong, and the error that the caller gets; None: the driver's own class, whatever that is.
FAULTS: dict[str, tuple[LiteralString, type[Exception] | None]] = {
    "a draining queue": (
        "UPDATE orchestrator.queues SET state = 'draining' WHERE name = 'default'",
        EnqueueRefused,
    ),
    "a constraint, which prints the row": (
        "ALTER TABLE orchestrator.tasks_live ADD CONSTRAINT odd CHECK (payload ->> 'text' = 'even')",
        EnqueueRefused,
    ),
    "a trigger of somebody's that quotes": (
        "CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE EXCEPTION 'no' USING DETAIL = NEW.payload::text, HINT = 'hush'; END $$;"
        " CREATE TRIGGER shout BEFORE INSERT ON orchestrator.tasks FOR EACH ROW EXECUTE FUNCTION public.shout()",
        EnqueueRefused,
    ),
    "no such function": ("DROP FUNCTION orchestrator.enqueue_many(jsonb)", SchemaError),
    "no such table": ("ALTER TABLE orchestrator.idempotency_keys RENAME TO other", SchemaError),
    "a lock": ("LISTEN nothing", None),
}


def everything_printed(error: BaseException) -> str:
    """Return everything that a log would get: the chain with its tracebacks, and each error's str and repr."""
    texts = traceback.format_exception(error)
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None:
            texts += [str(link), repr(link), *map(str, link.args)]
            links += [link.__cause__, getattr(link, "orig", None)]
    return "\n".join(texts)


# Each kind with two faults, and each fault with six kinds: what wraps an error does not ask which error it is.
SHORT = {
    (kind, tuple(FAULTS)[(2 * number + further) % len(FAULTS)])
    for number, kind in enumerate(ALL_KINDS)
    for further in (0, 1)
}


@pytest.mark.parametrize(
    ("kind", "fault", "many"),
    [
        pytest.param(
            kind,
            fault,
            many,
            id=f"{'a set' if many else 'one'}-{kind}-{fault}",
            marks=() if (kind, fault) in SHORT and not many else pytest.mark.long,
        )
        for kind in ALL_KINDS
        for fault in FAULTS
        for many in (False, True)
    ],
)
async def test_no_error_of_the_database_prints_the_payload(
    kind: str, fault: str, many: bool, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """Although SQLAlchemy prints parameters, and this server prints rows and parameters into its errors."""
    statement, expected = FAULTS[fault]
    connection.execute(SETTINGS)
    connection.execute(statement)

    async with ALL_KINDS[kind](database_url) as holding:
        if fault == "a lock":
            connection.execute("BEGIN")
            connection.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")
        sender = note.using(holding.held, key="k")
        items = [sender.call(text=SECRET)]
        asked = enqueue_many(kind, sender, items) if many else enqueue(kind, sender, text=SECRET)
        with pytest.raises(Exception) as raised:
            await asked
        if fault == "a lock":
            connection.execute("ROLLBACK")
        await holding.rollback()
    error = raised.value

    if expected is None:
        assert not isinstance(error, EnqueueRefused)
        assert "lock timeout" in str(error)
    else:
        assert isinstance(error, expected)
    assert SECRET not in everything_printed(error)


def over(value: object) -> Callable[[Any], object]:
    return lambda note: note.enqueue(text=value)


REFUSED: dict[str, Callable[[Any], object]] = {
    "a set": over({SECRET}),
    "a float that is none": over([SECRET, float("nan")]),
    "an odd object": over([SECRET, object()]),
    "too much": over(SECRET * 100_000),
    "NUL": over(SECRET + "\x00"),
    "a lone surrogate": over(SECRET + "\ud800"),
    "in a set": lambda note: note.enqueue_many([{"number": 1}, {"text": SECRET + "\x00"}]),
    "no mapping": lambda note: note.enqueue_many([SECRET]),
    "a wrong name": lambda note: note.enqueue(txt=SECRET),
    "not named": lambda note: note.enqueue(SECRET),
    "a wrong name in a set": lambda note: note.enqueue_many([{"txt": SECRET}]),
}


@pytest.mark.parametrize("how", REFUSED)
def test_no_refusal_of_ours_prints_the_payload(how: str, note: Any) -> None:
    """It has the path and the type."""
    with pytest.raises((PayloadRefused, TypeError)) as refusal:
        REFUSED[how](note)

    # The line of this file that enqueues is in the traceback; it names the constant alone.
    assert SECRET not in everything_printed(refusal.value)
