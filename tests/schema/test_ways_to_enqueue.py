"""Each way to enqueue makes the same row of the same task, or refuses it with the same message.

The ways are a bare INSERT, which the row trigger completes; enqueue(); enqueue_many(), alone and beside others;
enqueue_alike(); and enqueue_each(), which enqueue_many() calls for unusual tasks.
"""

import json
import re
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.schema.rows import one, rings, sleeping_worker

COMPARED = (
    "queue, type, payload::text, status, priority, max_attempts, timeout::text, aging_us, tags, metadata::text,"
    " trace_context::text, attempt, losses, lease, worker_id, idempotency_key, finished_at, tableoid::regclass::text,"
    " run_at = created_at AS at_once,"
    " CASE WHEN run_at > '2001-01-01' THEN round(extract(epoch FROM run_at - created_at), 1) END,"
    " position - (date_part('epoch', run_at) * 1000000)::bigint"
)
CASTS = {
    "type": "text", "payload": "jsonb", "queue": "text", "priority": "integer", "run_at": "timestamptz",
    "delay": "interval", "key": "text", "max_attempts": "integer", "timeout": "interval", "metadata": "jsonb",
    "trace_context": "jsonb",
}  # fmt: skip
COLUMNS = {"key": "idempotency_key"}
DECLARED = """
    INSERT INTO orchestrator.queues (name, priority, max_attempts, timeout, aging, state) VALUES
        ('post', 1, 2, '3 s', '1 hour', 'active'), ('shut', NULL, NULL, NULL, '0', 'draining'),
        ('held', 7, 7, NULL, '1 day', 'paused');
    INSERT INTO orchestrator.types (name, queue, priority, max_attempts, timeout) VALUES
        ('mail', 'post', 75, NULL, NULL), ('plain', 'default', NULL, NULL, NULL), ('shut', 'shut', NULL, 9, '1 h'),
        ('new', 'unheard of', NULL, NULL, NULL);
"""


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def inserted(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    """Enqueue by a bare INSERT."""
    columns = [sql.Identifier(COLUMNS.get(name, name)) for name in task if name != "delay"]
    values = [value_of(name, value) for name, value in task.items() if name != "delay"]
    if "delay" in task:
        columns.append(sql.Identifier("run_at"))
        values.append(sql.SQL("orchestrator.clock() + {}::interval").format(task["delay"]))
    statement = sql.SQL("INSERT INTO orchestrator.tasks ({}) VALUES ({}) RETURNING id").format(
        sql.SQL(", ").join(columns), sql.SQL(", ").join(values)
    )
    return int(one(connection, statement.as_string(connection)))


def called(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    """Enqueue by enqueue()."""
    arguments = [
        sql.SQL("{} => {}").format(sql.Identifier(name), value_of(name, value))
        for name, value in task.items()
    ]
    statement = sql.SQL("SELECT orchestrator.enqueue({})").format(sql.SQL(", ").join(arguments))
    return int(one(connection, statement.as_string(connection)))


def value_of(name: str, value: Any) -> sql.Composable:
    if name == "tags":
        return sql.SQL("{}::text[]").format(sql.Literal(value))
    if isinstance(value, dict):
        value = json.dumps(value)
    return sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(CASTS[name]))


def of_a_set(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    return int(one(connection, "SELECT id FROM orchestrator.enqueue_many(%s)", [Jsonb([task])]))


def of_a_mixed_set(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    items = [{"type": "plain"}, task, {"type": "mail", "tags": ["x"], "delay": "1 hour"}]
    return int(
        connection.execute("SELECT id FROM orchestrator.enqueue_many(%s)", [Jsonb(items)]).fetchall()[1][0]
    )


def one_by_one(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    return int(one(connection, "SELECT id FROM orchestrator.enqueue_each(%s)", [Jsonb([task])]))


def of_a_set_alike(connection: psycopg.Connection, task: dict[str, Any]) -> int:
    alike = {name: value for name, value in task.items() if name != "payload"}
    payloads = [task.get("payload", {}), {}]
    answer = one(connection, "SELECT orchestrator.enqueue_alike(%s, %s)", [Jsonb(payloads), Jsonb(alike)])
    return int(answer[0])


WAYS = [inserted, called, of_a_set, of_a_mixed_set, one_by_one, of_a_set_alike]


def outcome(connection: psycopg.Connection, way: Any, task: dict[str, Any]) -> Any:
    """Return the row of one way, or its refusal, and the notices. All is rolled back."""
    notices: list[str | None] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(notice.message_primary)

    connection.add_notice_handler(hear)
    try:
        with connection.transaction(force_rollback=True):
            task_id = way(connection, task)
            query = sql.SQL("SELECT {} FROM orchestrator.tasks WHERE id = %s").format(sql.SQL(COMPARED))
            return connection.execute(query, [task_id]).fetchone(), set(notices)
    except psycopg.Error as error:
        # Without the item's number, and without the moment it would have been due.
        return error.sqlstate, re.sub(
            r"^tasks\[[01]\]: |(?<=run_at is 11)\S+ \S+", "", error.diag.message_primary or ""
        )
    finally:
        connection.remove_notice_handler(hear)


def outcomes(connection: psycopg.Connection, task: dict[str, Any]) -> dict[str, Any]:
    return {way.__name__: outcome(connection, way, task) for way in WAYS}


PAYLOADS = st.one_of(
    st.dictionaries(
        st.text("ab", min_size=1, max_size=3), st.one_of(st.integers(), st.text('xé\n"', max_size=9))
    ),
    st.sampled_from(
        [{}, {"s": "x" * 200}, {"n": 10**300}, {"n": 10**4000}, nested(64), nested(65), {"s": "9" * 400}]
    ),
)
TASKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["mail", "plain", "new", "nobody's", "shut", "", "x" * 200, "x" * 201, "a\nb"])},
    optional={
        "payload": PAYLOADS,
        "queue": st.sampled_from(["post", "held", "elsewhere", "shut", "", "q" * 200, "q" * 201, "a\tb"]),
        "priority": st.sampled_from([0, 50, 100, 101, -1]),
        "delay": st.sampled_from(["0", "1 hour", "-1 hour", "9000 years"]),
        "max_attempts": st.sampled_from([1, 9, 32767, 0]),
        "timeout": st.sampled_from(["0", "1 minute", "-1 s", "101 years"]),
        "tags": st.sampled_from([[], ["a", "b"], ["é" * 101], ["t" * 200], ["t" * 201], ["a"] * 101, ["a", None]]),
        "metadata": st.sampled_from([{"m": 1}, {"m": "x" * 300}, nested(65)]),
        "trace_context": st.sampled_from([{"traceparent": "00-" + "a" * 60}, nested(65)]),
    },
)  # fmt: skip


@pytest.fixture
def shop(connection: psycopg.Connection) -> psycopg.Connection:
    """A database with types and queues of several kinds."""
    connection.execute(DECLARED)
    return connection


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(task=TASKS)
def test_every_way_makes_the_same_row_or_refuses_in_the_same_words(
    shop: psycopg.Connection, task: dict[str, Any]
) -> None:
    """Column by column, with derived columns, and with the same notices."""
    results = outcomes(shop, task)

    inserted = results.pop("inserted")
    assert dict.fromkeys(results, results["called"]) == results
    # Of several faults the functions may name another one first. An INSERT has no delay.
    if task.get("delay") != "-1 hour":
        assert inserted == results["called"] or {type(inserted[0]), type(results["called"][0])} == {str}


@pytest.mark.parametrize("key", ["k", "k" * 500, "k" * 501, ""])
@pytest.mark.parametrize("kind", ["mail", "m" * 201, "m" * 65_536, "a\nb", ""])
def test_a_key_makes_no_difference(shop: psycopg.Connection, kind: str, key: str) -> None:
    """Neither to the row nor to the refusals."""
    results = outcomes(shop, {"type": kind, "key": key})

    assert dict.fromkeys(results, results["inserted"]) == results


def test_a_key_that_no_index_could_hold_is_refused_by_name(shop: psycopg.Connection) -> None:
    """Within the limit of characters, and without a pattern that PostgreSQL could compress."""
    rare = "".join(chr(0x20000 + n * 7919 % 40_000) for n in range(700))
    words = "the type and the idempotency key have 2800 bytes together; at most 2600 are allowed"

    too_long = outcomes(shop, {"type": rare[:200], "key": rare[200:]})
    just_right = outcomes(shop, {"type": rare[:200], "key": rare[200:650]})

    assert dict.fromkeys(too_long, ("OR006", words)) == too_long
    assert {tuple} == {type(row) for row, _ in just_right.values()}


@pytest.mark.parametrize(
    "run_at", ["1969-12-31 23:59:59 UTC", "9000-01-01 00:00:01 UTC", "infinity", "2000-01-01 UTC"]
)
def test_a_time_makes_no_difference(shop: psycopg.Connection, run_at: str) -> None:
    """A valid time, one in the past, and one out of range."""
    results = outcomes(shop, {"type": "mail", "run_at": run_at})

    assert dict.fromkeys(results, results["inserted"]) == results


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("task", "rung"),
    [
        ({"type": "mail"}, ["post"]),
        ({"type": "mail", "delay": "30 s"}, ["post"]),
        ({"type": "mail", "delay": "1 hour"}, []),
        ({"type": "mail", "queue": "elsewhere"}, []),
    ],
)
def test_every_way_wakes_a_worker_that_sleeps_past_the_task(
    shop: psycopg.Connection, database_url: str, way: Any, task: dict[str, Any], rung: list[str]
) -> None:
    """On its queue, if it sleeps until after the task's time, and no other worker."""
    sleeping_worker(shop, "post")
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute("LISTEN orchestrator")

        way(shop, task)

        assert rung == rings(listener)


def test_a_set_reports_each_undeclared_type_once(shop: psycopg.Connection) -> None:
    """Not once per item."""
    notices: list[str | None] = []
    shop.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    items = [{"type": kind} for kind in ("mail", "a", "b", "a", "b", "mail", "a")]

    shop.execute("SELECT orchestrator.enqueue_many(%s)", [Jsonb(items)])

    assert {f"the task type '{kind}' is not declared yet" for kind in "ab"} == set(notices)
    assert 2 == len(notices)
