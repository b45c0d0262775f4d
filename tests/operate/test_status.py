"""The status of the whole: correct, cheap with many tasks, and it lists what needs attention."""

import re
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.maintain import sample
from orchestrator.operate import queues
from orchestrator.operate.status import Status, leader, status
from tests.clock import Clock
from tests.maintain.rounds import do
from tests.operate.worker_rows import darkened
from tests.schema.rows import one, put, sleeping_worker

BULK = """
    INSERT INTO orchestrator.tasks_live (
        id, type, payload, queue, status, priority, run_at, aging_us, max_attempts, timeout
    )
    SELECT
        nextval('orchestrator.tasks_id_seq'),
        'mail', jsonb_build_object('n', repeat('x', 1700)), 'mail', 'pending', 50,
        orchestrator.clock() - interval '1 hour', 0, 4, '5 min'
    FROM generate_series(1, %s)
"""
# Of rows as wide: more than queue_counts counts at a look.
MUCH = 6_000


def serving(connection: psycopg.Connection, *names: str, leads: bool = True, version: str = "1") -> UUID:
    """Add the row of a live worker."""
    worker = sleeping_worker(connection, *names)
    connection.execute(
        "UPDATE orchestrator.workers SET version = %s, is_leader = %s, term = 1, beat_at = orchestrator.clock(), "
        "leader_until = orchestrator.clock() + interval '10 s' WHERE id = %s",
        [version, leads, worker],
    )
    return worker


def about(found: Status) -> list[str]:
    return [concern.about for concern in found.attention]


def test_figures_are_those_of_the_tables(connection: psycopg.Connection, clock: Clock) -> None:
    """By queue: ready, held, scheduled, dead, and how long the oldest ready task waits."""
    for state in ("pending", "pending", "claimed", "running", "scheduled", "dead_letter", "completed"):
        put(connection, state, queue="mail", run_at=clock.now - timedelta(minutes=1))

    (_, mail) = status(connection).queues

    assert ("mail", 2, 2, 1, 1) == (mail.name, mail.ready, mail.held, mail.scheduled, mail.dead_letters)
    assert (timedelta(minutes=1), clock.now) == (mail.oldest_ready_age, mail.as_of)


def test_many_tasks_are_not_counted(connection: psycopg.Connection, clock: Clock) -> None:
    """The leader's last sample is shown, with its age; on request the tasks are counted."""
    connection.execute(BULK, [MUCH])
    never = status(connection)
    do(connection, sample)
    connection.execute("DELETE FROM orchestrator.tasks_live WHERE id % 2 = 0")
    clock.advance(minutes=4)
    sampled, exact = status(connection), status(connection, exact=True)

    assert (None, None) == (never.counted_at, never.queues[0].ready)
    assert "there are too many tasks to count now, and no leader has counted them yet" in about(never)
    (mail,) = (each for each in sampled.queues if each.name == "mail")
    assert (MUCH, timedelta(hours=1), timedelta(minutes=4)) == (
        mail.ready,
        mail.oldest_ready_age,
        sampled.at - (mail.as_of or clock.now),
    )
    assert [MUCH // 2] == [each.ready for each in exact.queues if each.name == "mail"]


def test_an_old_sample_shows_its_age(connection: psycopg.Connection, clock: Clock) -> None:
    """There is no leader, so nothing counts, and the status must show that."""
    connection.execute(BULK, [MUCH])
    do(connection, sample)
    clock.advance(minutes=90)

    assert any("the figures of the queues are 90 min old" in each for each in about(status(connection)))


def test_without_a_leader_figures_are_old_sooner(connection: psycopg.Connection, clock: Clock) -> None:
    """Nothing counts, and a new queue has no figures. With a leader the limit is some minutes."""
    connection.execute(BULK, [MUCH])
    do(connection, sample)
    clock.advance(minutes=2)
    put(connection, queue="new")
    serving(connection, "default", leads=False)
    unled = about(status(connection))
    serving(connection, "default")

    assert "the figures of the queues are 2 min old; newer queues are missing" in unled
    assert not any("min old" in each for each in about(status(connection)))


def test_a_sample_replaces_the_one_before(connection: psycopg.Connection, clock: Clock) -> None:
    """One row per queue. A queue without tasks disappears, unless it has a row in queues."""
    put(connection, queue="gone")
    do(connection, sample)
    connection.execute("DELETE FROM orchestrator.tasks_live")
    put(connection, "dead_letter", queue="mail")
    do(connection, sample)

    rows = connection.execute(
        "SELECT queue, pending, dead_letters, sampled_at = orchestrator.clock() FROM orchestrator.samples ORDER BY 1"
    ).fetchall()
    assert [("default", 0, 0, True), ("mail", 0, 1, True)] == rows


def test_the_rate_is_that_of_the_last_minutes(connection: psycopg.Connection, clock: Clock) -> None:
    """From the workers' statistics: the present minute and the one before; the curve is that of a quarter of an
    hour."""
    clock.set(clock.now.replace(second=30, microsecond=0))
    for ago, completed in ((0, 300), (1, 600), (14, 7), (15, 1_000)):
        connection.execute(
            "INSERT INTO orchestrator.statistics (minute, queue, type, completed) "
            "VALUES (date_trunc('minute', orchestrator.clock()) - make_interval(mins => %s), 'default', 'mail', %s)",
            [ago, completed],
        )

    (default,) = status(connection).queues

    assert (10.0, [7, *[0] * 12, 600, 300]) == (default.per_second, default.by_minute)


def test_nothing_needs_attention_where_all_is_well(connection: psycopg.Connection, clock: Clock) -> None:
    """There is a leader, and no task waits for long."""
    worker = serving(connection, "default")
    put(connection, run_at=clock.now)
    found = status(connection)

    assert [] == found.attention
    assert found.leader is not None
    assert (worker, [worker]) == (found.leader.id, [each.id for each in found.workers])
    clock.advance(seconds=11)
    assert leader(connection) is None


def paused(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    queues.set_state(connection, "default", "paused", reason="deploy")


def draining(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    queues.set_state(connection, "default", "draining", reason=None)


def unserved(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    put(connection, queue="two words")


def leaderless(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default", leads=False)


def lifeless(connection: psycopg.Connection, clock: Clock) -> None:
    pass


def silent(connection: psycopg.Connection, clock: Clock) -> None:
    worker = serving(connection, "default", leads=False)
    put(connection, "running", worker_id=worker)
    clock.advance(seconds=20)
    serving(connection, "default")


def patient(connection: psycopg.Connection, clock: Clock) -> None:
    worker = serving(connection, "default", leads=False)
    connection.execute("UPDATE orchestrator.workers SET dead_after = interval '10 minutes'")
    put(connection, "running", worker_id=worker)
    clock.advance(seconds=400)
    serving(connection, "default")


def gone(connection: psycopg.Connection, clock: Clock) -> None:
    worker = serving(connection, "default", leads=False)
    put(connection, "running", worker_id=worker)
    darkened(connection, worker)
    serving(connection, "default")


def given_up(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    put(connection, "dead_letter")


def unheard(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    for _ in range(2):
        put(
            connection, "scheduled", type="unheard of", run_at=clock.now + timedelta(minutes=2),
            error=Jsonb({"class": "UnknownType", "message": "no handler", "put_back": 3}),
        )  # fmt: skip


def late(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default")
    put(connection, run_at=clock.now - timedelta(minutes=7))


def mixed(connection: psycopg.Connection, clock: Clock) -> None:
    serving(connection, "default", version="1")
    serving(connection, "default", leads=False, version="2")


@pytest.mark.parametrize(
    ("overview", "text", "command"),
    [
        (paused, r"queue default is paused since .* by .* \(deploy\): 0 tasks ready", "queues resume default"),
        (draining, "queue default is draining, and refuses new tasks, since", "queues resume default"),
        (unserved, "no live worker serves queue two words: 1 task ready", "worker MODULE:APP --queues 'two words'"),
        (leaderless, "there is no leader: the tasks of dead workers are not taken back", "doctor"),
        (lifeless, "no worker lives: no task runs, and there is no leader", "worker MODULE:APP"),
        (silent, r"is silent \(its last beat was 20 s ago\) .* it is declared dead after 30 s", "workers stop .*"),
        (patient, r"is silent \(its last beat was 400 s ago\) .* it is declared dead after 600 s", "workers stop .*"),
        (gone, r"worker host:1 is dead \(.*\) and holds 1 task: the leader, or the next worker", "workers stop .*"),
        (unheard, r"workers give back 2 tasks of queue default: they do not know the type unheard of", r"explain \d+"),
        (given_up, "queue default has 1 dead letter", "failures"),
        (late, "the oldest ready task of queue default waits for 7 min", "tasks list .*"),
        (mixed, "workers run 2 versions: 1, 2", "workers list"),
    ],
)  # fmt: skip
def test_what_needs_attention_is_shown_with_the_command_that_helps(
    connection: psycopg.Connection,
    clock: Clock,
    overview: Callable[[psycopg.Connection, Clock], None],
    text: str,
    command: str,
) -> None:
    """One thing is wrong, and the status shows exactly that."""
    overview(connection, clock)

    (concern,) = status(connection).attention
    assert re.search(text, concern.about), concern
    assert re.fullmatch(f"orchestrator {command}", concern.command), concern


def test_a_name_that_looks_like_a_flag_is_none_in_the_command(
    connection: psycopg.Connection, clock: Clock
) -> None:
    """The command can be pasted."""
    serving(connection, "default")
    connection.execute("INSERT INTO orchestrator.queues (name) VALUES ('-x')")
    queues.set_state(connection, "-x", "paused", reason=None)

    assert ["orchestrator queues resume -- -x"] == [each.command for each in status(connection).attention]


def test_a_leader_that_was_killed_does_not_lead(connection: psycopg.Connection, clock: Clock) -> None:
    """Its term and its beat are valid for some seconds, but its beacon is lost."""
    worker = serving(connection, "default")
    put(connection, run_at=clock.now)
    darkened(connection, worker)
    found = status(connection)

    assert found.leader is None
    assert [(False, False)] == [(each.live, each.leads) for each in found.workers]
    assert "no worker lives: no task runs, and there is no leader" in about(found)
    # The same by plain SQL.
    assert [] == connection.execute("TABLE orchestrator.live_workers").fetchall()
    assert [] == connection.execute("TABLE orchestrator.leader").fetchall()


def test_a_copy_is_the_first_concern(connection: psycopg.Connection, clock: Clock) -> None:
    """It can be read, but no task runs there."""
    connection.execute("SELECT orchestrator.hold_after_restore()")

    first = status(connection).attention[0]
    assert "nothing runs here: the tasks are a copy" in first.about
    assert "orchestrator resume --after-restore" == first.command


def test_five_concerns_of_a_kind_are_listed(connection: psycopg.Connection, clock: Clock) -> None:
    """A screen is short; a last line has the number of the others."""
    serving(connection, "default")
    for number in range(8):
        put(connection, "dead_letter", queue=f"q{number}")

    assert 6 == len(found := about(status(connection)))
    assert "and 3 more like this" == found[-1]


def test_a_reader_sees_the_status(connection: psycopg.Connection, clock: Clock) -> None:
    """All of it, with the role that exists for it."""
    put(connection)
    connection.execute("SET ROLE orchestrator_reader")

    found = status(connection, exact=True)
    connection.execute("RESET ROLE")

    assert [1] == [each.ready for each in found.queues]
    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.tasks_live")
