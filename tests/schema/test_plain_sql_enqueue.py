"""Enqueueing by INSERT, enqueue() and enqueue_many(): the completed columns, and the refusals with their messages."""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from orchestrator.task.payload import decode
from tests.schema.rows import FUTURE, insert, one, put, read, refusal

BARE = "INSERT INTO orchestrator.tasks (type, payload) VALUES ('mail', %s::jsonb)"
LIMIT = "bytes of text; at most 262144 are allowed"
TOO_DEEP = "the payload is nested more than 64 levels deep"
UNREADABLE = "the payload holds a number of more than 4300 digits, or a decimal beyond 1.8e308"
SECRET = "canary-4711"  # noqa: S105 - what a refusal must not show


def refused(connection: psycopg.Connection, **columns: object) -> psycopg.errors.Diagnostic:
    """Do a bare INSERT that must be refused."""
    statement = sql.SQL("INSERT INTO orchestrator.tasks ({}) VALUES ({})").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.Placeholder, columns))
    )
    return refusal(connection, statement.as_string(connection), columns)


def enqueue_many(connection: psycopg.Connection, *items: object) -> list[tuple[int, bool]]:
    return connection.execute(
        "SELECT id, created FROM orchestrator.enqueue_many(%s)", [Jsonb(list(items))]
    ).fetchall()


def nested(levels: int, kind: str) -> str:
    """Return an object with this many nested containers, itself included."""
    inner = levels - 1
    match kind:
        case "objects":
            return '{"a": ' * levels + "1" + "}" * levels
        case "arrays":
            return '{"a": ' + "[" * inner + "]" * inner + "}"
        case _:
            pairs, odd = divmod(inner, 2)
            return '{"a": ' + '[{"b": ' * pairs + ("[]" if odd else "2") + "}]" * pairs + "}"


def test_a_bare_insert_is_a_correct_enqueue(connection: psycopg.Connection) -> None:
    """Type and payload are enough; the defaults fill the rest."""
    task_id = insert(connection, type="mail", payload=Jsonb({"to": "you"}))

    assert ("default", "pending", 50, 4, timedelta(minutes=5), 0, {"to": "you"}, True, True) == read(
        connection, task_id, "queue", "status", "priority", "max_attempts", "timeout", "attempt", "payload",
        "run_at BETWEEN created_at - interval '1 s' AND clock_timestamp()",
        "aging_us = 1000 * 365.25 * 86400 * 1000000",
    )  # fmt: skip


def test_a_missing_option_comes_from_the_type_then_the_queue(connection: psycopg.Connection) -> None:
    """A given value overrides the type's, and the type's overrides the queue's. NULL means no value."""
    connection.execute(
        "INSERT INTO orchestrator.queues (name, priority, max_attempts, timeout, aging)"
        " VALUES ('post', 1, 2, '3 s', '1 hour')"
    )
    connection.execute("INSERT INTO orchestrator.types (name, queue, priority) VALUES ('mail', 'post', 75)")

    left_out = insert(connection, type="mail", timeout=None)
    given = insert(connection, type="mail", priority=99, max_attempts=9)

    columns = ("queue", "priority", "max_attempts", "timeout", "aging_us")
    assert ("post", 75, 2, timedelta(seconds=3), 3_600_000_000) == read(connection, left_out, *columns)
    assert ("post", 99, 9, timedelta(seconds=3), 3_600_000_000) == read(connection, given, *columns)


def test_an_undeclared_type_is_taken_with_a_notice(connection: psycopg.Connection) -> None:
    """A typing error gets a notice, and a deployment in another order is no error."""
    notices: list[str | None] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute("INSERT INTO orchestrator.types (name) VALUES ('mail')")

    insert(connection, type="mail")
    insert(connection, type="mial")

    assert ["the task type 'mial' is not declared yet"] == notices


def test_a_future_task_is_scheduled(connection: psycopg.Connection) -> None:
    """With either of the two statuses in the INSERT."""
    assert "scheduled" == read(connection, insert(connection, type="t", run_at=FUTURE), "status")
    assert "pending" == read(connection, insert(connection, type="t", status="scheduled"), "status")


WINDOW = "key_window is 00:00:00; it must be longer than 0, and at most 100 years"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"type": ""}, "the type is empty"),
        ({"type": None}, "the type is empty"),
        ({"type": "x" * 201}, "the type has 201 characters; at most 200 are allowed"),
        ({"type": "a\nb"}, "the type holds a control character"),
        ({"queue": ""}, "the queue is empty"),
        ({"queue": "x" * 201}, "the queue has 201 characters; at most 200 are allowed"),
        ({"priority": 101}, "the priority is 101; it must lie between 0 and 100"),
        ({"priority": -1}, "the priority is -1; it must lie between 0 and 100"),
        ({"max_attempts": 0}, "max_attempts is 0; it must lie between 1 and 32767"),
        ({"timeout": timedelta(days=-1)}, "the timeout is -1 days; it must lie between 0 (none) and 100 years"),
        ({"timeout": timedelta(days=40_000)}, "the timeout is 40000 days; it must lie between 0 (none) and 100 years"),
        ({"tags": ["a", None]}, "a tag is NULL or has more than 200 characters"),
        ({"tags": ["a" * 201]}, "a tag is NULL or has more than 200 characters"),
        ({"tags": ["a"] * 101}, "there are 101 tags; at most 100 are allowed"),
        ({"run_at": "infinity"}, "run_at is infinity; it must lie between the years 1970 and 9000"),
        ({"run_at": "-infinity"}, "run_at is -infinity; it must lie between the years 1970 and 9000"),
        ({"idempotency_key": ""}, "the idempotency key is empty"),
        ({"idempotency_key": "k" * 501}, "the idempotency key has 501 characters; at most 500 are allowed"),
    ],
)  # fmt: skip
def test_an_invalid_option_is_refused_by_name(
    connection: psycopg.Connection, columns: dict[str, Any], words: str
) -> None:
    """One SQLSTATE and a sentence; nothing is enqueued."""
    diagnostic = refused(connection, **{"type": "mail", "payload": Jsonb({"s": SECRET})} | columns)

    assert ("OR006", words, "Nothing was enqueued.") == (
        diagnostic.sqlstate,
        diagnostic.message_primary,
        diagnostic.message_hint,
    )
    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.tasks")


@pytest.mark.parametrize(
    "columns",
    [
        {"lease": 1}, {"attempt": 1}, {"attempt": None}, {"losses": 1}, {"started_at": FUTURE}, {"claimed_at": FUTURE},
        {"status": "claimed"}, {"status": "blocked"}, {"status": "dead_letter"}, {"error": Jsonb({})},
        {"result": Jsonb(1)},
    ],
)  # fmt: skip
def test_a_new_task_bears_no_marks_of_an_attempt(
    connection: psycopg.Connection, columns: dict[str, Any]
) -> None:
    """Not even for a superuser, who may write these columns. The row is not printed."""
    diagnostic = refused(connection, type="mail", payload=Jsonb({"s": SECRET}), **columns)

    assert "OR001" == diagnostic.sqlstate
    assert diagnostic.message_hint


def test_an_id_cannot_be_chosen(connection: psycopg.Connection) -> None:
    """Neither the id of an ended task nor one ahead of the sequence. The next task is not affected."""
    finished = put(connection, "completed")

    for chosen in (finished, finished + 1, 2**62):
        diagnostic = refused(connection, id=chosen, type="mail")
        assert ("OR006", f"id is {chosen}; the database numbers the tasks itself") == (
            diagnostic.sqlstate,
            diagnostic.message_primary,
        )
        assert "RETURNING id" in (diagnostic.message_hint or "")

    assert finished < insert(connection, type="mail") < 2**62


def test_a_draining_queue_takes_nothing_new(connection: psycopg.Connection) -> None:
    """The statement in the HINT opens it again. A paused queue accepts everything."""
    connection.execute("SELECT orchestrator.drain_queue('default')")
    diagnostic = refused(connection, type="mail")

    assert ("OR003", "queue 'default' is draining and takes no new tasks") == (
        diagnostic.sqlstate,
        diagnostic.message_primary,
    )
    connection.execute((diagnostic.message_hint or "").removesuffix(" opens it again.").encode())
    connection.execute("SELECT orchestrator.pause_queue('default')")
    assert "pending" == read(connection, insert(connection, type="mail"), "status")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (f'["{SECRET}"]', "the payload must be a JSON object, not array"),
        ("null", "the payload must be a JSON object, not null"),
        (None, "the payload must be a JSON object, not NULL"),
        (json.dumps({"s": SECRET * 30_000}), f"the payload is {len(SECRET) * 30_000 + 9} {LIMIT}"),
        (f'{{"s": "{SECRET}", "n": [{"1e130000, " * 99}1]}}', f"the payload is 12870327 {LIMIT}"),
        (nested(65, "objects"), TOO_DEEP),
        (nested(65, "arrays"), TOO_DEEP),
        (nested(65, "mixed"), TOO_DEEP),
        (nested(66, "mixed"), TOO_DEEP),
        (f'{{"n": {"9" * 4301}}}', UNREADABLE),
        (f'{{"n": [-{"9" * 4300}]}}', UNREADABLE),
        (f'{{"n": {"9" * 400}.5}}', UNREADABLE),
    ],
    ids=["array", "null", "NULL", "large",
          "bomb", "objects", "arrays", "mixed", "mixed 66", "digits", "negative", "decimal"],
)  # fmt: skip
def test_a_payload_that_cannot_be_read_back_is_refused(
    connection: psycopg.Connection, payload: str | None, words: str
) -> None:
    """By INSERT and by enqueue(), with a HINT, and without any part of the payload in the error."""
    for statement in (BARE, "SELECT orchestrator.enqueue('mail', %s::jsonb)"):
        diagnostic = refusal(connection, statement, [payload])

        assert ("OR002", words) == (diagnostic.sqlstate, diagnostic.message_primary)
        assert diagnostic.message_hint
        shown = (
            diagnostic.message_primary,
            diagnostic.message_detail,
            diagnostic.message_hint,
            diagnostic.context,
            diagnostic.internal_query,
        )
        assert not any(SECRET in (part or "") for part in shown)


@pytest.mark.parametrize(
    "payload",
    [
        nested(64, "objects"), nested(64, "arrays"), nested(64, "mixed"), nested(63, "mixed"), "{}",
        f'{{"s": "{"9" * 5000}"}}', f'{{"n": {"9" * 4300}}}', f'{{"n": -{"9" * 4299}}}', f'{{"n": 0.{"1" * 5000}}}',
        f'{{"n": {"1" * 309}.5}}', json.dumps({"s": "x" * (262_144 - 9)}),
        '{"grüße": "日本 \\u00e9\\ud83d\\ude00", "n": [1.5, true, null, {"a": {}}], "big": 9223372036854775808}',
    ],
)  # fmt: skip
def test_a_payload_at_the_limit_comes_back_equal(connection: psycopg.Connection, payload: str) -> None:
    """A worker can read what the check accepts."""
    task_id = one(connection, "SELECT orchestrator.enqueue('mail', %s::jsonb)", [payload])

    assert decode(payload) == decode(read(connection, task_id, "payload::text"))


def test_enqueue_takes_every_option(connection: psycopg.Connection) -> None:
    """By name; it returns the id."""
    task_id = one(
        connection,
        "SELECT orchestrator.enqueue('mail', '{\"a\": 1}', queue => 'q', priority => 100, delay => '1 hour',"
        " key => 'k',"
        " max_attempts => 9, timeout => '0', tags => '{x,y}', metadata => '{\"m\": 1}', trace_context => '{\"t\": 1}')",
    )

    assert ("q", 100, "scheduled", "k", 9, timedelta(0), ["x", "y"], {"m": 1}, {"t": 1}) == read(
        connection, task_id, "queue", "priority", "status", "idempotency_key", "max_attempts", "timeout",
        "tags", "metadata", "trace_context",
    )  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [
        "'t', run_at => now(), delay => '1 s'", "'t', priority => 70000", "'t', max_attempts => 0", "''", "NULL",
        "'t', max_attempts => 32768", "'t', key => 'k', key_window => '0'", "'', key => 'k'", "'t', key => ''",
        "'t', delay => '9000 years'",
    ],
)  # fmt: skip
def test_enqueue_refuses_invalid_options(connection: psycopg.Connection, how: str) -> None:
    """With the same SQLSTATE as a bare INSERT, and a HINT."""
    diagnostic = refusal(connection, f"SELECT orchestrator.enqueue({how})")

    assert "OR006" == diagnostic.sqlstate
    assert diagnostic.message_hint


def test_enqueue_many_answers_in_order(connection: psycopg.Connection) -> None:
    """Ids rise with the items, with any keys; each item has its own options."""
    answers = enqueue_many(
        connection,
        {"type": "b", "key": "z", "payload": {"n": 0}},
        {"type": "a", "key": "y", "priority": 75, "tags": ["x"], "timeout": "3 s"},
        {"type": "c", "delay": "1 hour", "run_at": None},
    )

    ids = [task_id for task_id, _ in answers]
    assert sorted(ids) == ids
    assert [True, True, True] == [created for _, created in answers]
    assert ("b", {"n": 0}, "z") == read(connection, ids[0], "type", "payload", "idempotency_key")
    assert ("a", 75, ["x"], timedelta(seconds=3)) == read(
        connection, ids[1], "type", "priority", "tags", "timeout"
    )
    assert "scheduled" == read(connection, ids[2], "status")


@pytest.mark.parametrize(
    ("bad", "sqlstate", "words"),
    [
        ({"type": ""}, "OR006", "the type is empty"),
        ({"type": "t", "prioritty": 1}, "OR006", "it has an unknown member 'prioritty'"),
        ({"type": "t", "priority": 101}, "OR006", "the priority is 101; it must lie between 0 and 100"),
        ({"type": "t", "payload": [SECRET]}, "OR002", "the payload must be a JSON object, not array"),
        ({"type": "t", "tags": "x"}, "OR006", "its tags are not an array"),
        ({"type": "t", "run_at": "2030-01-01", "delay": "1 s"}, "OR006", "run_at and delay were both given"),
        ({"type": "t", "run_at": "soon"}, "OR006", 'invalid input syntax for type timestamp with time zone: "soon"'),
        ({"type": "t", "key": "k", "key_window": "0"}, "OR006", WINDOW),
        ("t", "OR006", "it is not a JSON object"),
    ],
)  # fmt: skip
def test_one_bad_item_refuses_the_set_and_is_named(
    connection: psycopg.Connection, bad: object, sqlstate: str, words: str
) -> None:
    """All or nothing. The message begins with the item's index."""
    good = [{"type": "t", "key": str(n)} for n in range(3)]
    diagnostic = refusal(connection, "SELECT orchestrator.enqueue_many(%s)", [Jsonb([*good, bad])])

    assert (sqlstate, f"tasks[3]: {words}") == (diagnostic.sqlstate, diagnostic.message_primary)
    assert diagnostic.message_hint
    assert SECRET not in f"{diagnostic.message_detail}{diagnostic.context}"
    assert (0, 0) == connection.execute(
        "SELECT (SELECT count(*) FROM orchestrator.tasks), (SELECT count(*) FROM orchestrator.idempotency_keys)"
    ).fetchone()


@pytest.mark.parametrize("tasks", ['{"type": "t"}', '"t"', None])
def test_enqueue_many_takes_an_array(connection: psycopg.Connection, tasks: str | None) -> None:
    """A single object is refused with an example; an empty array returns no ids."""
    assert "OR006" == refusal(connection, "SELECT orchestrator.enqueue_many(%s::jsonb)", [tasks]).sqlstate
    assert [] == enqueue_many(connection)


@pytest.mark.parametrize(
    ("payloads", "alike"),
    [
        ('{"a": 1}', '{"type": "t"}'),
        ("1", '{"type": "t"}'),
        (None, '{"type": "t"}'),
        ("[{}]", '[{"type": "t"}]'),
        ("[]", None),
    ],
)
def test_enqueue_alike_takes_an_array_and_an_object(
    connection: psycopg.Connection, payloads: str | None, alike: str | None
) -> None:
    """Anything else is refused with an example, and not by an internal error of the function."""
    diagnostic = refusal(
        connection, "SELECT orchestrator.enqueue_alike(%s::jsonb, %s::jsonb)", [payloads, alike]
    )

    assert "OR006" == diagnostic.sqlstate
    assert (
        diagnostic.message_primary
        == "enqueue_alike takes a JSON array of payloads, and a JSON object of what they share"
    )


@pytest.mark.parametrize("column", ["metadata", "trace_context"])
@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("[1]", "must be a JSON object, not array"),
        ('{"n": 1e130000}', "is 130008 bytes of text; at most 100000"),
    ],
)
def test_metadata_and_trace_context_are_checked_like_the_payload(
    connection: psycopg.Connection, column: str, body: str, complaint: str
) -> None:
    """Each claim prints them, and a number of eight characters can print as a hundred thousand."""
    connection.execute("UPDATE orchestrator.settings SET payload_bytes_max = 100000")
    statement = sql.SQL("INSERT INTO orchestrator.tasks (type, {}) VALUES ('t', %s::jsonb)").format(
        sql.Identifier(column)
    )

    with pytest.raises(psycopg.DatabaseError, match=complaint) as caught:
        connection.execute(statement, [body])

    assert ("OR002", True) == (caught.value.sqlstate, str(caught.value).startswith(f"the {column} "))
