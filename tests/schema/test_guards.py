"""The valid values of types, queues and workers: a trigger refuses others with a message, and a constraint where no
trigger runs."""

import psycopg
import pytest

from orchestrator.task.backoff import FACTOR_MAX, Backoff
from orchestrator.task.columns import NAME_CHARACTERS_MAX
from orchestrator.task.duration import SECONDS_MAX
from tests.schema.rows import one, refusal

FOR_EVER = "178000000 years"
NAMES = [
    ("", "is empty"),
    ("x" * 201, "has 201 characters"),
    ("a\nb", "holds a control character"),
    (None, "is NULL"),
]
SPANS = [FOR_EVER, "-1 s", "100 years 1 s"]
TYPES = [
    *(("name", name, f"the name of the type {fault}") for name, fault in NAMES),
    *(("queue", name, f"the queue {fault}") for name, fault in NAMES),
    *((column, span, f"{column} is ") for column in ("backoff_base", "backoff_cap") for span in SPANS),
    *(
        ("backoff_factor", factor, "backoff_factor is ")
        for factor in ("NaN", "Infinity", "-Infinity", 0.5, 1001)
    ),
    *(("backoff_jitter", jitter, "backoff_jitter is ") for jitter in ("NaN", "Infinity", -0.1, 1.1)),
    *(("timeout", span, "the timeout is ") for span in SPANS),
    ("priority", 101, "the priority is 101"),
    ("max_attempts", 0, "max_attempts is 0; it must lie between 1 and 32767"),
]
QUEUES = [
    *(("name", name, f"the name of the queue {fault}") for name, fault in NAMES),
    *(("state_since", moment, "state_since is ") for moment in ("infinity", "-infinity", "9001-01-01 UTC")),
    *(
        (column, span, column)
        for column in ("aging", "keep_finished", "keep_dead")
        for span in (FOR_EVER, "-1 s")
    ),
    *(("timeout", span, "the timeout is ") for span in SPANS),
    ("state", "odd", "the state is 'odd'"),
    ("priority", -1, "the priority is -1"),
    ("max_attempts", -1, "max_attempts is -1; it must lie between 1 and 32767"),
]
CASES = [("types", *case) for case in TYPES] + [("queues", *case) for case in QUEUES]
ADD = {
    "types": "INSERT INTO orchestrator.types (name, {0}) VALUES ('new', %s)",
    "queues": "INSERT INTO orchestrator.queues (name, {0}) VALUES ('new', %s)",
}
NAMED = {
    "types": "INSERT INTO orchestrator.types (name) VALUES (%s)",
    "queues": "INSERT INTO orchestrator.queues (name) VALUES (%s)",
}
EDIT = "UPDATE orchestrator.{} SET {} = %s WHERE name = 'old'"
WORKER = (
    "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, {0})"
    " VALUES (gen_random_uuid(), 'host', 1, '0', '{{}}', 1, %s)"
)


def ways(table: str, column: str) -> list[str]:
    add = NAMED[table] if column == "name" else ADD[table].format(column)
    return [add, EDIT.format(table, column)]


def test_a_bad_setting_is_refused_with_a_message(connection: psycopg.Connection) -> None:
    """By INSERT and by UPDATE: the fault and a hint, each at most one line."""
    for add in NAMED.values():
        connection.execute(add.encode(), ["old"])

    # One database for all, since nothing is changed.
    for table, column, value, fault in CASES:
        for way in ways(table, column):
            said = refusal(connection, way, [value])
            assert "OR006" == said.sqlstate, fault
            assert (said.message_primary or "").startswith(fault)
            assert (said.message_hint or "").startswith("Nothing was changed. It is about the ")
            assert len((said.message_primary or "") + (said.message_hint or "")) < 300


def test_a_bad_setting_is_refused_without_a_trigger(connection: psycopg.Connection) -> None:
    """As during the restore of a dump: the constraints equal the checks of the triggers."""
    for add in NAMED.values():
        connection.execute(add.encode(), ["old"])
    connection.execute("SET session_replication_role = replica")

    for table, column, value, fault in CASES:
        for way in ways(table, column):
            with pytest.raises(psycopg.errors.IntegrityError) as caught:
                connection.execute(way.encode(), [value])
            assert caught.value.sqlstate in ("23514", "23502"), fault


@pytest.mark.parametrize("column", ["started_at", "beat_at", "idle_until", "leader_until"])
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "1969-12-31 UTC", "9000-01-02 UTC"])
def test_a_worker_has_no_time_that_python_cannot_load(
    connection: psycopg.Connection, column: str, moment: str
) -> None:
    """Every other worker reads its row."""
    with pytest.raises(psycopg.errors.CheckViolation, match="workers_times_check"):
        connection.execute(WORKER.format(column).encode(), [moment])


def test_the_bounds_are_those_of_python(connection: psycopg.Connection) -> None:
    """The database accepts what Python accepts, at the edges of both."""
    longest = one(connection, "SELECT make_interval(secs => %s) <= interval '100 years'", [SECONDS_MAX])
    longer = one(connection, "SELECT make_interval(secs => %s) <= interval '100 years'", [SECONDS_MAX + 1])
    edge = Backoff(base_seconds=SECONDS_MAX, factor=FACTOR_MAX, cap_seconds=SECONDS_MAX, jitter=1)

    connection.execute(
        "INSERT INTO orchestrator.types (name, backoff_base, backoff_factor, backoff_cap, backoff_jitter)"
        " VALUES (%s, make_interval(secs => %s), %s, make_interval(secs => %s), %s)",
        ["x" * NAME_CHARACTERS_MAX, edge.base_seconds, edge.factor, edge.cap_seconds, edge.jitter],
    )

    assert (True, False) == (longest, longer)
