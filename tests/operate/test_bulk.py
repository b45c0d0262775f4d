"""Actions on many tasks: complete steps, no task twice, also while others change the same tasks."""

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import QueryCanceled
from psycopg.types.json import Jsonb

from orchestrator.errors import DatabaseUnavailable
from orchestrator.operate import Action, Search, bulk, filters
from orchestrator.operate.bulk import Step
from orchestrator.task.status import FINISHED, Status
from tests.schema.rows import one, put, read
from tests.schema.test_operator_functions import DEAD_LETTERS

DEAD = Search(statuses=(Status.DEAD_LETTER,))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few tasks need many steps."""
    monkeypatch.setattr(bulk, "BATCH", 10)
    monkeypatch.setattr(bulk, "STRETCH", 4)


def done(connection: psycopg.Connection, action: Action, wanted: Search, **options: Any) -> Step:
    """Run to the end."""
    *_, last = [Step(0, 0), *bulk.walk(connection, action, bulk.meant(action, wanted), **options)]
    return last


def statuses(connection: psycopg.Connection) -> dict[str, int]:
    return dict(
        connection.execute("SELECT status, count(*) FROM orchestrator.tasks GROUP BY status").fetchall()
    )


def requeues(connection: psycopg.Connection) -> Counter[int]:
    """Return how often each task was requeued manually."""
    found = connection.execute("SELECT task_id FROM orchestrator.audit WHERE action = 'requeue'").fetchall()
    return Counter(task_id for (task_id,) in found)


def test_every_task_that_matches_is_requeued_once_and_recorded(connection: psycopg.Connection) -> None:
    """In steps, with other tasks in between, with the actor and the reason."""
    connection.execute(DEAD_LETTERS, [73])
    others = [put(connection, status) for status in Status if status is not Status.DEAD_LETTER]

    assert Step(73, 0) == done(
        connection, Action.REQUEUE, Search(types=("ma*",)), reason="the server is back"
    )
    assert [1] * 73 == list(requeues(connection).values())
    assert not requeues(connection).keys() & set(others)
    assert [("the server is back", True)] == connection.execute(
        "SELECT DISTINCT reason, actor = session_user FROM orchestrator.audit"
    ).fetchall()


@pytest.mark.parametrize("action", list(Action))
def test_an_action_selects_its_default_statuses(connection: psycopg.Connection, action: Action) -> None:
    """It selects the statuses that make sense. Running tasks and deletes need an explicit status."""
    ids = {status: put(connection, status) for status in Status}
    usual = {
        Action.REQUEUE: {"dead_letter"}, Action.CANCEL: {"scheduled", "blocked", "pending"}, Action.DELETE: set(),
        Action.PRIORITY: {"scheduled", "blocked", "pending"},
    }[action]  # fmt: skip

    if usual:
        assert len(usual) == done(connection, action, Search(types=("mail",)), priority=90).done
    else:
        with pytest.raises(ValueError, match="say the status"):
            bulk.meant(action, Search(types=("mail",)))
    changed = {status for status, task_id in ids.items() if has_changed(connection, task_id, status)}
    assert usual == changed


def has_changed(connection: psycopg.Connection, task_id: int, status: str) -> bool:
    return bool((status, 50) != read(connection, task_id, "status", "priority"))


@pytest.mark.parametrize(
    ("action", "status", "advice"),
    [
        (Action.REQUEUE, Status.PENDING, "ready to run already"),
        (Action.CANCEL, Status.DEAD_LETTER, "delete it"),
        (Action.CANCEL, Status.COMPLETED, "requeue it"),
        (Action.PRIORITY, Status.RUNNING, "has its worker already"),
        (Action.PRIORITY, Status.CANCELLED, "requeue it"),
    ],
)
def test_an_invalid_action_is_refused_with_advice_first(action: Action, status: Status, advice: str) -> None:
    """Before any task is selected."""
    with pytest.raises(ValueError, match=advice):
        bulk.meant(action, Search(statuses=(Status.SCHEDULED, status)))


@pytest.mark.parametrize("action", [Action.REQUEUE, Action.CANCEL, Action.DELETE])
def test_an_action_applies_to_each_named_status(connection: psycopg.Connection, action: Action) -> None:
    """With a named status, also to tasks that a worker holds."""
    for status in Status:
        put(connection, status)
    takes = tuple(status for status in Status if status in bulk.RULES[action].takes)

    assert Step(len(takes), 0) == done(connection, action, Search(statuses=takes))
    assert len(Status) - (len(takes) if action is Action.DELETE else 0) == sum(statuses(connection).values())


def test_no_more_than_the_limit_and_the_oldest_first(connection: psycopg.Connection) -> None:
    """Exactly."""
    connection.execute(DEAD_LETTERS, [40])

    assert Step(23, 0) == done(connection, Action.REQUEUE, DEAD, most=23)
    assert {"pending": 23, "dead_letter": 17} == statuses(connection)
    assert one(connection, "SELECT max(id) FROM orchestrator.tasks_live") < one(
        connection, "SELECT min(id) FROM orchestrator.tasks_dead"
    )


def test_an_interrupted_run_can_be_continued(connection: psycopg.Connection) -> None:
    """Each step is complete. The next run does the rest, and no task twice."""
    connection.execute(DEAD_LETTERS, [50])
    walk = bulk.walk(connection, Action.REQUEUE, DEAD)
    first = next(step for step in walk if step.done >= 20)
    walk.close()

    rest = done(connection, Action.REQUEUE, DEAD)

    assert 50 == first.done + rest.done
    assert [1] * 50 == list(requeues(connection).values())


def test_a_task_that_failed_again_since_is_not_requeued_again(connection: psycopg.Connection) -> None:
    """A run selects only tasks that had ended when it began."""
    connection.execute(DEAD_LETTERS, [5])
    pinned = bulk.pinned(connection, DEAD)
    put(
        connection, "dead_letter", finished_at=pinned.before + timedelta(seconds=1) if pinned.before else None
    )

    assert Step(5, 0) == done(connection, Action.REQUEUE, pinned)
    assert pinned == bulk.pinned(connection, replace(pinned))


def test_two_at_once_share_the_work(connection: psycopg.Connection, database_url: str) -> None:
    """No task is changed twice, and neither run waits for the other for ever."""
    connection.execute(DEAD_LETTERS, [300])
    steps: list[Step] = []

    def walk() -> None:
        with psycopg.connect(database_url, autocommit=True) as mine:
            steps.append(done(mine, Action.REQUEUE, DEAD))

    threads = [threading.Thread(target=walk) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 300 == sum(step.done for step in steps)
    assert [1] * 300 == list(requeues(connection).values())


def test_locked_tasks_are_skipped_and_reported(connection: psycopg.Connection, database_url: str) -> None:
    """The next run changes them."""
    connection.execute(DEAD_LETTERS, [30])
    with psycopg.connect(database_url) as operator:
        operator.execute("SELECT FROM orchestrator.tasks_dead ORDER BY id LIMIT 7 FOR UPDATE")
        assert Step(23, 7) == done(connection, Action.REQUEUE, DEAD)

    assert Step(7, 0) == done(connection, Action.REQUEUE, DEAD)


def test_a_lock_on_the_table_ends_the_run_with_a_sentence(
    connection: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For another session's DDL there is no wait, because all other sessions would wait behind us."""
    monkeypatch.setattr(bulk, "TRIES", 2)
    monkeypatch.setattr(bulk, "WAIT_SECONDS", 0)
    connection.execute(DEAD_LETTERS, [1])
    with psycopg.connect(database_url) as operator:
        operator.execute("LOCK TABLE orchestrator.tasks_dead IN SHARE MODE")
        with pytest.raises(DatabaseUnavailable, match="another transaction's lock was in the way 2 times"):
            done(connection, Action.REQUEUE, DEAD)


def test_ids_that_lie_far_apart_cost_few_steps(connection: psycopg.Connection) -> None:
    """A run skips a gap."""
    put(connection, "dead_letter", id=1)
    put(connection, "dead_letter", id=2**62)

    steps = list(bulk.walk(connection, Action.REQUEUE, DEAD))

    assert Step(2, 0) == steps[-1]
    assert len(steps) < 5


def cancel_beyond(longest: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let stretches longer than this be cancelled; return the list of all that are tried."""
    attempts = bulk.attempt
    stretches: list[int] = []

    def slow(session: Any, asked: Any, reason: str | None) -> Any:
        stretches.append(asked[1]["upto"] - asked[1]["after"])
        if stretches[-1] > longest:
            raise QueryCanceled("canceling statement due to statement timeout")
        return attempts(session, asked, reason)

    monkeypatch.setattr(bulk, "attempt", slow)
    return stretches


def test_a_step_that_takes_too_long_is_made_shorter(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement timeout halves the range of ids, and does not end the run."""
    connection.execute(DEAD_LETTERS, [20])
    cancel_beyond(2, monkeypatch)

    *_, last = bulk.walk(connection, Action.REQUEUE, DEAD)

    assert Step(20, 0) == last


def test_a_halved_range_does_not_grow_after_a_slow_step(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every second step would be cancelled."""
    connection.execute(DEAD_LETTERS, [400])
    stretches = cancel_beyond(10, monkeypatch)
    monkeypatch.setattr(bulk, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(bulk, "STRETCH", 160)
    monkeypatch.setattr(bulk, "BATCH", 1_000)

    state = bulk.Walk(0, 400, stretch=160)
    for _ in range(4):
        bulk.step(connection, Action.REQUEUE, DEAD, state, size=1_000, priority=None, reason=None)

    assert [160, 10, 10, 10] == stretches


def test_a_step_has_a_timeout_of_seconds(connection: psycopg.Connection) -> None:
    """And not the minute of an interactive session: a range that is too long is halved soon."""
    given: list[Any] = bulk.attempt(connection, (b"SELECT current_setting('statement_timeout')", {}), None)

    assert [("5s",)] == given


def test_a_condition_on_the_payload_applies_to_the_action(connection: psycopg.Connection) -> None:
    """The shown tasks are the changed ones."""
    chosen = put(connection, "dead_letter", payload=Jsonb({"user": {"id": 42}}))
    other = put(connection, "dead_letter", payload=Jsonb({"user": {"id": "42"}}))

    assert (
        1 == done(connection, Action.REQUEUE, Search(payload=(filters.condition("payload.user.id=42"),))).done
    )
    assert ("pending", "dead_letter") == (
        read(connection, chosen, "status"),
        read(connection, other, "status"),
    )


def test_an_equal_priority_is_no_change(connection: psycopg.Connection) -> None:
    """The second time nothing changes, and nothing is recorded."""
    put(connection)

    counts = [done(connection, Action.PRIORITY, Search(), priority=90).done for _ in range(2)]

    assert [1, 0] == counts
    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.audit")


def test_every_status_has_a_rule() -> None:
    """The rules know all of them."""
    assert set(Status) == bulk.WAITING | FINISHED | {Status.CLAIMED, Status.RUNNING}
