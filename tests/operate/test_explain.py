"""Why is this task not running? Rows in the database provoke each answer, in the order in which the engine would
stop the task. Real workers hold the task where that matters."""

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.types.json import Jsonb

from orchestrator import Backoff, Context, Orchestrator, Snooze, operate
from orchestrator.cli import orchestrator
from orchestrator.operate import Explanation
from tests.clock import Clock
from tests.operate.worker_rows import darkened, hired
from tests.patience import eventually
from tests.schema.logins import logins
from tests.schema.rows import insert, one, put
from tests.worker import processes
from tests.worker.running import status, until, working

UNKNOWN = Jsonb({"class": "UnknownType", "message": "no handler", "put_back": 3})
LOST = Jsonb({"class": "WorkerLost", "message": "worker a was gone while it ran this"})
REFUSED = Jsonb({"class": "ConnectionRefusedError", "message": "the mail server does not answer"})


def why(connection: psycopg.Connection, task_id: int) -> Explanation:
    """Return the answer for programs, and check that SQL's text answer is the same."""
    found = operate.explain(connection, task_id)
    lines = [found.says, *([found.command] if found.command else [])]
    # Time passes between the two.
    assert masked("\n".join(lines)) == masked(one(connection, "SELECT orchestrator.explain(%s)", [task_id]))
    return found


def masked(text: str) -> str:
    """The text without its spans of time: `59 min 59 s` equals `1 h` a moment earlier."""
    unit = r"[\d.]+ (?:d|h|min|s)\b"
    return re.sub(rf"{unit}(?: {unit})*", "…", text)


def follow(connection: psycopg.Connection, found: Explanation) -> None:
    """Run the advised statement."""
    assert found.command is not None
    connection.execute(found.command.encode())


def test_a_worker_that_may_be_silent_for_longer_still_holds_its_task(connection: psycopg.Connection) -> None:
    """Its own dead_after decides whether a worker is dead."""
    worker = hired(connection, "default", silent=100)
    task_id = put(connection, "running", worker_id=worker)
    with_default = why(connection, task_id)
    connection.execute("UPDATE orchestrator.workers SET dead_after = interval '150 s'")
    with_more = why(connection, task_id)

    assert ("worker_gone", "running") == (with_default.reason, with_more.reason)
    assert re.search(r"not been heard of for .*; in .* it counts as dead", with_more.says)


# Not there.


def test_an_id_that_was_never_used(connection: psycopg.Connection) -> None:
    """A typing error; the answer names the newest id."""
    assert "there is no task 1, and there has been none: ids begin at 1" == why(connection, 1).says
    newest = put(connection)

    found = why(connection, 4711)

    assert ("never_existed", None) == (found.reason, found.command)
    assert f"there is no task 4711, and there has been none: the newest has the id {newest}" == found.says
    assert found.is_absent


def test_a_task_that_was_deleted_manually(connection: psycopg.Connection) -> None:
    """The role, the time and the reason, from the audit."""
    task_id = put(connection)
    with connection.transaction():
        connection.execute("SET LOCAL orchestrator.reason = 'asked for by the customer'")
        connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [task_id])

    found = why(connection, task_id)

    assert "deleted" == found.reason
    assert re.search(rf"no task {task_id}: \w+ deleted it at .*: asked for by the customer$", found.says)


def test_a_task_that_retention_has_deleted(connection: psycopg.Connection) -> None:
    """It is known while one of its attempts is on record."""
    task_id = put(connection, "dead_letter")
    connection.execute(
        "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type)"
        " VALUES (%s, 1, 'failed', 'default', 'mail')",
        [task_id],
    )
    connection.execute("DELETE FROM orchestrator.tasks_dead")

    found = why(connection, task_id)

    assert "forgotten" == found.reason
    assert f"there is no task {task_id} any more: it was a mail in queue default" in found.says


def test_a_task_that_is_not_committed_yet(connection: psycopg.Connection, database_url: str) -> None:
    """The answer names the sessions that may be about to commit it."""
    with psycopg.connect(database_url) as producer:
        task_id = insert(producer, type="mail")

        found = why(connection, task_id)

        assert "absent" == found.reason
        assert "is not committed yet, or was rolled back" in found.says
        assert found.command is not None
        assert str(producer.info.backend_pid) in found.command
        follow(connection, found)
        producer.rollback()
    after = why(connection, task_id)
    assert ("absent", None) == (after.reason, after.command)


# Ended.


@pytest.mark.parametrize(
    ("state", "columns", "says"),
    [
        ("completed", {}, r"has completed, at .* ago\), in attempt 4 of 4, after .*To run it once more:"),
        ("cancelled", {"error": None}, r"was cancelled at .* ago\). To run it all the same:"),
        (
            "cancelled",
            {"error": Jsonb({"class": "Cancelled", "message": "no longer wanted"})},
            r"by its handler: no longer wanted\. ",
        ),
        (
            "dead_letter",
            {"error": REFUSED},
            r"all of its 4 attempts have failed: ConnectionRefusedError: the mail",
        ),
        (
            "dead_letter",
            {"error": LOST, "losses": 3},
            r"3 workers died while they ran it: WorkerLost: worker a",
        ),
        (
            "dead_letter",
            {"error": REFUSED, "attempt": 1},
            r"it failed for good: ConnectionRefusedError",
        ),
        ("dead_letter", {"error": None}, r"all of its 4 attempts have failed\. When the cause is mended:"),
    ],
)
def test_a_task_that_has_ended(
    connection: psycopg.Connection, state: str, columns: dict[str, object], says: str
) -> None:
    """The time, the way and the reason; the advised command runs it again."""
    task_id = put(connection, state, **columns)

    found = why(connection, task_id)

    assert state == found.reason
    assert re.search(says, found.says)
    follow(connection, found)
    assert "pending" == status(connection, task_id)


def test_a_task_that_was_cancelled_manually(connection: psycopg.Connection) -> None:
    """The role, and the reason."""
    task_id = put(connection)
    connection.execute("SELECT orchestrator.cancel(%s, 'user 3 has left')", [task_id])

    assert re.search(r"was cancelled at .* by \w+: user 3 has left\.", why(connection, task_id).says)


# Nothing runs.


@pytest.mark.parametrize("state", ["pending", "running", "scheduled"])
def test_a_task_in_a_copy_of_the_database(connection: psycopg.Connection, state: str) -> None:
    """No task that has not ended runs until an operator resumes the copy."""
    task_id = put(connection, state)
    connection.execute("SELECT orchestrator.hold_after_restore('a drill')")

    found = why(connection, task_id)

    assert ("copy", "orchestrator resume --after-restore") == (found.reason, found.command)
    assert f"task {task_id} is {state}, and nothing runs here: this database is a copy" in found.says
    assert "completed" == why(connection, put(connection, "completed")).reason


def test_a_blocked_task(connection: psycopg.Connection) -> None:
    """It waits for others, and can be freed."""
    task_id = put(connection, "blocked")

    found = why(connection, task_id)

    assert "blocked" == found.reason
    follow(connection, found)
    assert "pending" == status(connection, task_id)


# Held.


def test_a_running_task_names_its_worker_and_its_timeout(
    connection: psycopg.Connection, clock: Clock
) -> None:
    """The worker, its host, the running time, and the end of the timeout."""
    worker = hired(connection)
    task_id = put(
        connection, "running", worker_id=worker, started_at=clock.now - timedelta(seconds=12), timeout="5 min"
    )

    found = why(connection, task_id)

    assert "running" == found.reason
    assert (
        f"task {task_id} runs: attempt 1 of 4, for 12 s, at worker {worker} (app-1, pid 4711); its timeout of"
        " 5 min ends it in 4 min 48 s. To stop the task:"
    ) == found.says
    follow(connection, found)
    assert "cancelled" == status(connection, task_id)


@pytest.mark.parametrize(
    ("timeout", "row", "says"),
    [
        ("0", {}, "; it has no timeout. To stop"),
        (
            "4 s",
            {},
            "; its timeout of 4.0 s was over 8.0 s ago: if its worker does not end it, the leader does.",
        ),
        (
            "5 min",
            {"state": "draining"},
            ". That worker is about to stop, and gives back what it does not finish.",
        ),
        (
            "5 min",
            {"silent": 20},
            "has not been heard of for 20 s; in 10 s it counts as dead, and the task goes",
        ),
    ],
)
def test_a_running_task_reports_what_is_unusual(
    connection: psycopg.Connection, clock: Clock, timeout: str, row: dict[str, object], says: str
) -> None:
    """No timeout, one that is over, a worker that drains, a worker that is silent."""
    worker = hired(connection, **row)  # type: ignore[arg-type]  # by name, from the table above
    began = clock.now - timedelta(seconds=12)
    task_id = put(connection, "running", worker_id=worker, started_at=began, timeout=timeout)

    assert says in why(connection, task_id).says


def test_a_claimed_task_waits_for_a_slot_of_its_worker(connection: psycopg.Connection) -> None:
    """A suspect also waits until all other tasks there have ended."""
    worker = hired(connection, capacity=20)
    task_id, suspect = (put(connection, "claimed", worker_id=worker, losses=losses) for losses in (0, 2))

    assert (
        "waits there for one of 20 slots, among the 2 tasks that this worker holds"
        in why(connection, task_id).says
    )
    assert "2 workers died of it, so it waits until it can run there alone" in why(connection, suspect).says


@pytest.mark.parametrize(
    ("row", "because"),
    [
        ({"state": "dead"}, "it is declared dead"),
        ({"state": "stopped", "silent": 20}, "it is stopped"),
        ({"silent": 40}, "its last beat was 40 s ago"),
        (None, "it is not on the list of workers any more"),
    ],
)
def test_a_task_whose_worker_is_gone(
    connection: psycopg.Connection, clock: Clock, row: dict[str, object] | None, because: str
) -> None:
    """The leader takes it back; without a live worker nothing does, and the answer says so."""
    task_id = put(
        connection,
        "running",
        **({} if row is None else {"worker_id": hired(connection, **row)}),  # type: ignore[arg-type]
    )

    alone = why(connection, task_id)
    hired(connection)
    leaderless = why(connection, task_id)
    hired(connection, leads=True, host="app-2")
    led = why(connection, task_id)

    assert {"worker_gone"} == {found.reason for found in (alone, leaderless, led)}
    assert (
        f"which is gone: {because}. No other worker lives; the next one that starts takes it back"
        in alone.says
    )
    assert "orchestrator worker MODULE:APP" == alone.command
    assert "The other workers elect a leader, which takes it back" in leaderless.says
    soon = "in 10 s" if row and row.get("state") == "stopped" else "within seconds"
    assert led.says.endswith(f"The leader (app-2, pid 4711) takes it back {soon}")
    assert led.command is None


def test_a_worker_that_was_killed_is_known_to_be_gone_before_its_beat_is_missed(
    connection: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    """By its beacon: its last beat was a moment ago. (For this test the server counts as up for long.)"""
    connection.execute(
        "CREATE OR REPLACE FUNCTION orchestrator.up_since() RETURNS timestamptz LANGUAGE sql STABLE"
        " AS $$ SELECT statement_timestamp() - interval '1 day' $$"
    )
    connection.execute("SELECT pg_advisory_lock(71)")
    task_id = insert(connection, type="shop.knock", payload=Jsonb({"door": 71}))
    held = "SELECT count(*) FROM orchestrator.workers WHERE beacon IS NOT NULL"
    with processes.worker(database_url, tmp_path / "log", ORCHESTRATOR_DEAD_AFTER_SECONDS="3600") as process:
        eventually(
            lambda: status(connection, task_id) == "running" and one(connection, held),
            "it runs, with a beacon",
        )
        assert "running" == why(connection, task_id).reason
        process.kill()

        eventually(lambda: operate.explain(connection, task_id).reason == "worker_gone", "its beacon is out")

    assert (
        "its process has ended, or lost its connection. No other worker lives"
        in why(connection, task_id).says
    )
    assert "no_worker" == why(connection, put(connection)).reason


# Not due.


def test_a_task_that_is_not_due(connection: psycopg.Connection, clock: Clock) -> None:
    """The time when it is due, and how to run it now."""
    task_id = put(connection, "scheduled", run_at=clock.now + timedelta(hours=2, minutes=5))

    found = why(connection, task_id)

    assert "not_due" == found.reason
    assert re.search(rf"task {task_id} is due at .*, in 2 h 5 min\. To run it now:", found.says)
    follow(connection, found)
    assert "pending" == status(connection, task_id)


def work_until(app: Orchestrator, holds: Callable[[], object], what: str) -> None:
    """Run a worker in this process until a condition holds."""

    async def run() -> None:
        async with working(app):
            await until(holds, what)

    asyncio.run(run())


def test_a_task_that_waits_for_its_next_attempt(connection: psycopg.Connection, app: Orchestrator) -> None:
    """The last error and its attempt; after a snooze the answer says that."""

    @app.task(name="mail", backoff=Backoff(base_seconds=3600, cap_seconds=3600))
    def mail(context: Context) -> None:
        if context.attempt > 1:
            raise Snooze("1h")
        raise ConnectionRefusedError("the mail server does not answer")

    task_id = mail.enqueue().id
    work_until(app, lambda: status(connection, task_id) == "scheduled", "it has failed")
    failed = why(connection, task_id)

    assert "retry" == failed.reason
    assert re.search(
        rf"task {task_id} waits for its next attempt, due at .*: attempt 1 of 4 ended at .* \(failed\):"
        r" ConnectionRefusedError: the mail server does not answer\. To try it now:",
        failed.says,
    )
    follow(connection, failed)
    assert "pending" == status(connection, task_id)
    work_until(app, lambda: status(connection, task_id) == "scheduled", "it has been put off")
    assert "snoozed" == why(connection, task_id).reason


def test_a_task_that_a_worker_gave_back_because_it_does_not_know_the_type(
    connection: psycopg.Connection, app: Orchestrator, database_url: str
) -> None:
    """How often; the advice is to start a worker that knows it, until there is one."""
    task_id = insert(connection, type="unheard of")
    given_back: LiteralString = (
        "SELECT coalesce((error ->> 'put_back')::int, 0) FROM orchestrator.tasks WHERE id = %s"
    )
    work_until(app, lambda: one(connection, given_back, [task_id]), "it was given back")

    found = why(connection, task_id)
    knower = hired(connection, types=["unheard of"], host="app-7")
    known = why(connection, task_id)

    assert "unknown_type" == found.reason == known.reason
    assert (
        f"task {task_id} was given back once, because no worker that took it knows the type unheard of"
        in found.says
    )
    assert "No live worker of queue default knows that type" in found.says
    assert "orchestrator worker MODULE:APP --queues default" == found.command
    assert "A worker that knows it lives now (app-7, pid 4711). To try it now:" in known.says
    with connection.transaction(force_rollback=True):
        darkened(connection, knower)
        assert found.command == why(connection, task_id).command
    follow(connection, known)
    assert "pending" == status(connection, task_id)


def test_a_suspect_that_no_worker_could_run_alone(connection: psycopg.Connection) -> None:
    """It is delayed for a while, and tried again."""
    task_id = put(connection, "scheduled", losses=2, error=LOST, claimed_at=datetime.now(UTC))

    found = why(connection, task_id)

    assert "suspect" == found.reason
    assert "2 workers died while they ran task" in found.says


# Ready.


def test_a_paused_queue_comes_first(connection: psycopg.Connection) -> None:
    """The role, the time, and the reason, with or without a worker for the queue. A name is quoted for SQL."""
    task_id = put(connection, queue="o'mail")
    connection.execute("SELECT orchestrator.pause_queue('o''mail', 'provider maintenance until 14:00')")

    found = why(connection, task_id)

    assert "queue_paused" == found.reason
    assert re.search(
        r"its queue o'mail is paused, by \w+ since .*: provider maintenance until 14:00\.", found.says
    )
    follow(connection, found)
    assert "no_worker" == why(connection, task_id).reason


def test_no_worker_serves_the_queue(connection: psycopg.Connection) -> None:
    """No worker lives, live ones serve other queues, or the one that served it drains; silent ones are not live."""
    task_id = put(connection, queue="mail")
    says = [why(connection, task_id)]
    hired(connection, "mail", silent=31)
    says.append(why(connection, task_id))
    hired(connection, "default")
    says.append(why(connection, task_id))
    hired(connection, "mail", "default", state="draining")
    says.append(why(connection, task_id))

    assert {("no_worker", "orchestrator worker MODULE:APP --queues mail")} == {
        (f.reason, f.command) for f in says
    }
    assert [
        "no worker is alive. Start one:",
        "no worker is alive. Start one:",
        "the live workers (1) serve other queues. Start one:",
        "those that did (1) are draining, and about to stop. Start one:",
    ] == [found.says.partition("serves its queue mail: ")[2] for found in says]


def test_a_name_that_is_no_plain_word_is_quoted_for_the_shell(connection: psycopg.Connection) -> None:
    """The command can be pasted."""
    name = "a'; touch /tmp/pasted; echo '\\"
    command = why(connection, put(connection, queue=name)).command

    assert command is not None
    assert ["orchestrator", "worker", "MODULE:APP", "--queues", name] == shlex.split(command)


def test_no_worker_knows_the_type(connection: psycopg.Connection) -> None:
    """Among the workers of the queue; the answer says whether another worker does. A worker that has not reported
    its types may know it."""
    task_id = put(connection, type="mail")
    hired(connection, types=["report"])
    misspelt = why(connection, task_id)
    connection.execute("INSERT INTO orchestrator.types (name) VALUES ('mail')")
    declared = why(connection, task_id)
    hired(connection, "other", types=["mail"], host="app-9")
    elsewhere = why(connection, task_id)
    hired(connection, types=None)

    assert {"no_handler"} == {found.reason for found in (misspelt, declared, elsewhere)}
    assert (
        "(workers: 1) knows the type mail, and no worker has ever declared it: it may be misspelt. "
        in misspelt.says
    )
    assert "knows the type mail. Start one that does:" in declared.says
    assert "knows the type mail; one that serves other queues does (app-9, pid 4711)." in elsewhere.says
    assert "orchestrator worker MODULE:APP --queues default" == elsewhere.command
    assert "no_handler" != why(connection, task_id).reason


def test_another_session_has_locked_the_row(connection: psycopg.Connection, database_url: str) -> None:
    """An open manual transaction: workers skip the row. The answer names the session, which can be ended."""
    hired(connection)
    task_id = put(connection)
    with psycopg.connect(database_url, application_name="a report") as operator:
        pid = operator.info.backend_pid
        operator.execute("SELECT FROM orchestrator.tasks WHERE id = %s FOR UPDATE", [task_id])
        eventually(
            lambda: operate.explain(connection, task_id).reason == "row_locked",
            "it has been locked for a second",
        )

        found = why(connection, task_id)
        follow(connection, found)
        with pytest.raises(psycopg.OperationalError):
            operator.execute("SELECT")

    assert f"workers skip it: pid {pid} (a report), open for " in found.says
    assert "row_locked" != why(connection, task_id).reason


def test_a_role_that_cannot_see_the_age_of_a_lock_names_no_session(
    connection: psycopg.Connection, database_url: str, administrator: psycopg.Connection
) -> None:
    """A claim in progress locks the row, too, and its session must not be ended."""
    hired(connection)
    task_id = put(connection)
    with logins(administrator, database_url) as log_in, psycopg.connect(database_url) as claims:
        reader = log_in("reader")
        claims.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [task_id])
        found = operate.explain(reader, task_id)

    assert "row_locked" != found.reason
    assert "pg_terminate_backend" not in (found.command or "")


def test_a_suspect_waits_to_run_alone(connection: psycopg.Connection) -> None:
    """The worker that claims it lets all other tasks end first."""
    hired(connection)
    task_id = put(connection, losses=2)

    found = why(connection, task_id)

    assert "suspect" == found.reason
    follow(connection, found)
    assert "cancelled" == status(connection, task_id)


async def test_all_slots_are_busy(connection: psycopg.Connection, app: Orchestrator) -> None:
    """With real workers: the number of slots, and of tasks ahead, from the first task of the queue on."""
    door = threading.Event()

    @app.task(name="hold")
    async def hold() -> None:
        await asyncio.get_running_loop().run_in_executor(None, door.wait)

    held = [hold.enqueue().id for _ in range(2)]

    async with working(app):
        await until(
            lambda: all(status(connection, each) == "running" for each in held), "both slots are taken"
        )
        ids = [hold.enqueue().id for _ in range(3)]
        answers = [why(connection, task_id) for task_id in ids]
        connection.execute("SELECT orchestrator.drain_queue('default')")
        answers.append(why(connection, ids[0]))
        follow(connection, answers[2])
        answers.append(why(connection, ids[2]))
        door.set()
        first, second, third, draining, moved = answers
    assert {"busy"} == {found.reason for found in (first, second, third, draining, moved)}
    assert (
        "but all 2 slots for its queue default are busy (workers: 1), and it is the next. To run more at once:"
        in first.says
    )
    assert "orchestrator worker MODULE:APP --queues default" == first.command
    assert "and 1 is ahead of it" in second.says
    assert "and 2 are ahead of it" in third.says
    assert "(The queue is draining: it takes no new tasks, and runs those it has)" in draining.says
    assert "it is the next" in moved.says


def test_nothing_keeps_a_task(connection: psycopg.Connection, clock: Clock) -> None:
    """It will start soon. After half a minute at the head of its queue, there is a fault that no row shows."""
    hired(connection)
    fresh, stuck = (put(connection, queue=queue, run_at=clock.now) for queue in ("default", "other"))
    swept = put(connection, "scheduled", run_at=clock.now)
    hired(connection, "other")
    ready = why(connection, fresh)
    assert f"task {fresh} is ready since" in ready.says
    assert ("ready", None) == (ready.reason, ready.command)
    assert "ready" == why(connection, swept).reason
    clock.advance(seconds=31)
    connection.execute("UPDATE orchestrator.workers SET beat_at = orchestrator.clock()")

    found = why(connection, stuck)

    assert ("stuck", "orchestrator doctor") == (found.reason, found.command)


def test_a_million_before_it_cost_little(connection: psycopg.Connection) -> None:
    """Counts stop at 10,000. The answer for the last of 30,000 reads a third of them, by the index, and the answer
    for the first reads none."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (id, type, queue, status, priority, max_attempts, timeout, aging_us, run_at)"
        " SELECT nextval('orchestrator.tasks_id_seq'),"
        " 'mail', 'default', 'pending', 50, 4, '5 min', 0, '2026-01-01' FROM generate_series(1, 30000)"
    )
    hired(connection)
    hired(connection, types=None)
    first, last = connection.execute("SELECT min(id), max(id) FROM orchestrator.tasks").fetchall()[0]
    connection.execute("SELECT pg_stat_force_next_flush()")
    read: LiteralString = (
        "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'tasks_live'"
    )
    whole_before, rows_before = connection.execute(read).fetchall()[0]

    says = [operate.explain(connection, task_id).says for task_id in (first, last)]
    connection.execute("SELECT pg_stat_force_next_flush()")
    whole, rows = connection.execute(read).fetchall()[0]

    assert "it is the next" in says[0]
    assert "more than 10000 are ahead of it" in says[1]
    assert 0 == whole - whole_before
    assert rows - rows_before < 11_000


# Who may ask, and where.


@pytest.mark.parametrize("role", ["operator", "reader"])
def test_every_role_that_may_read_tasks_may_call_explain(
    connection: psycopg.Connection, administrator: psycopg.Connection, database_url: str, role: str
) -> None:
    """With every answer, and the same words as for the owner."""
    worker = hired(connection)
    tasks = [
        put(connection, state) for state in ("pending", "scheduled", "completed", "dead_letter", "blocked")
    ]
    tasks.append(put(connection, "running", worker_id=worker))
    with logins(administrator, database_url) as log_in:
        person = log_in(role)
        for task_id in (*tasks, 4711):
            assert operate.explain(connection, task_id).reason == operate.explain(person, task_id).reason


def test_explain_works_in_a_read_only_session(connection: psycopg.Connection) -> None:
    """For example on a standby."""
    ready, ended = put(connection), put(connection, "completed")
    with connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")

        reasons = [operate.explain(connection, task_id).reason for task_id in (ready, ended, 4711)]

    assert ["no_worker", "completed", "never_existed"] == reasons


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("-5 s", "0 s"), ("0.4 s", "0.4 s"), ("9.97 s", "9 s"), ("12.9 s", "12 s"), ("200 s", "3 min 20 s"),
        ("5 min", "5 min"), ("2 h 5 min", "2 h 5 min"), ("3 days 4 h", "3 d 4 h"), ("1000 years", "365250 d"),
    ],
)  # fmt: skip
def test_a_span_of_time_is_short(connection: psycopg.Connection, span: str, words: str) -> None:
    """As precise as a reader at a terminal needs."""
    assert words == one(connection, "SELECT orchestrator.format_interval(%s::interval)", [span])


def test_the_command_prints_the_answer_and_the_advice(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Untrusted text is escaped. Exit status 1 for a missing task; an object for programs."""
    task_id = put(connection, "scheduled", type="\x1b[2Jmail", error=UNKNOWN)

    def ask(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(orchestrator, ["explain", *map(str, words), "--url", database_url])
        return done.exit_code, done.stdout

    code, shown = ask(task_id)
    assert (0, "\x1b" in shown) == (code, False)
    assert r"knows the type \x1b[2Jmail" in shown.splitlines()[0]
    assert "  orchestrator worker MODULE:APP --queues default" == shown.splitlines()[1]
    assert (1, "there is no task 4711, and there has been none: the newest has the id 1\n") == ask(4711)
    code, printed = ask(4711, "--json")
    assert (1, "never_existed", 4711) == (code, (found := json.loads(printed))["reason"], found["task_id"])
    assert 2 == ask(0)[0] == ask("abc")[0]
