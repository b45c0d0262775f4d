"""Actions on queues and workers: their effects, their refusals, and their records."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from orchestrator.errors import OperationRefused
from orchestrator.operate import queues, workers
from orchestrator.operate.queues import Change
from tests.schema.rows import one, put, read, refusal, sleeping_worker


def test_a_state_has_its_role_and_its_reason(connection: psycopg.Connection) -> None:
    """In the row as long as it lasts, and in audit for ever."""
    queues.set_state(connection, "default", "paused", reason="deploy")
    paused = queues.queue(connection, "default")
    queues.set_state(connection, "default", "active", reason=None)

    assert ("paused", one(connection, "SELECT session_user"), "deploy") == (
        paused.state, paused.state_by, paused.state_reason,
    )  # fmt: skip
    assert [("pause", "deploy"), ("resume", None)] == connection.execute(
        "SELECT action, reason FROM orchestrator.audit ORDER BY id"
    ).fetchall()


@pytest.mark.parametrize(
    ("name", "advice"), [("defualt", "Did you mean default?"), ("xyz", "The queues are default.")]
)
def test_an_unknown_queue_gets_a_suggestion(connection: psycopg.Connection, name: str, advice: str) -> None:
    """Nothing changes, and no queue of that name is made."""
    acts: list[Callable[[], object]] = [
        lambda: queues.set_state(connection, name, "paused", reason=None),
        lambda: queues.change(connection, name, Change(priority=1), reason=None),
        lambda: queues.change(connection, name, Change(keep_dead=timedelta(1)), reason=None),
    ]
    for act in acts:
        with pytest.raises(OperationRefused) as refused:
            act()
        assert f"there is no queue {name!r}. {advice}" == str(refused.value)
    assert ["default"] == [each.name for each in queues.queues(connection)]


def test_new_tasks_get_the_queues_defaults(connection: psycopg.Connection) -> None:
    """A setting that is not named stays. A cleared one returns to the built-in default."""
    before = one(connection, "SELECT orchestrator.enqueue('mail')")
    everything = Change(
        priority=75, max_attempts=2, timeout=timedelta(seconds=9), aging=timedelta(hours=1),
        keep_finished=timedelta(days=2), keep_dead=timedelta(days=3),
    )  # fmt: skip
    queues.change(connection, "default", everything, reason="they are quick")
    after = one(connection, "SELECT orchestrator.enqueue('mail')")
    queues.change(connection, "default", Change(max_attempts=3, clear=["priority", "aging"]), reason=None)
    now = queues.queue(connection, "default")

    columns = ("priority", "max_attempts", "timeout", "aging_us")
    assert (50, 4, timedelta(minutes=5)) == read(connection, before, *columns)[:3]
    assert (75, 2, timedelta(seconds=9), 3_600_000_000) == read(connection, after, *columns)
    assert (None, 3, timedelta(seconds=9)) == (now.priority, now.max_attempts, now.timeout)
    assert (timedelta(days=2), timedelta(days=3)) == (now.keep_finished, now.keep_dead)
    assert ["defaults", "retention", "defaults"] == [
        action
        for (action,) in connection.execute("SELECT action FROM orchestrator.audit ORDER BY id").fetchall()
    ]


def test_a_change_is_whole_or_not_at_all(connection: psycopg.Connection) -> None:
    """Two functions, one transaction."""
    with pytest.raises(psycopg.Error):
        queues.change(connection, "default", Change(priority=1, keep_dead=timedelta(-1)), reason=None)

    assert queues.queue(connection, "default").priority is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "set_defaults needs something to set or to clear"),
        (", priority => 101", "the priority is 101; it must lie between 0 and 100"),
        (", max_attempts => 0", "max_attempts is 0; it must lie between 1 and 32767"),
        (", timeout => '-1 s'", "the timeout is -00:00:01; it must lie between 0 (none) and 100 years"),
        (", aging => '1001 years'", "aging is 1001 years; it must lie between 0 and 1000 years"),
        (", clear => '{name}'", "only priority, max_attempts, timeout and aging can be cleared"),
    ],
)
def test_an_invalid_default_is_refused(connection: psycopg.Connection, arguments: str, message: str) -> None:
    """With a valid example."""
    diagnostic = refusal(connection, f"SELECT orchestrator.set_defaults('default'{arguments})")

    assert ("OR006", message) == (diagnostic.sqlstate, diagnostic.message_primary)
    assert "set_defaults('mail'" in (diagnostic.message_hint or "")


def three_workers(connection: psycopg.Connection) -> dict[str, UUID]:
    """Three workers on two hosts."""
    made = {}
    for number, host in enumerate(("db-1", "db-1", "db-2"), start=1):
        worker = sleeping_worker(connection, "default")
        connection.execute(
            "UPDATE orchestrator.workers SET host = %s, pid = %s WHERE id = %s", [host, number, worker]
        )
        made[f"{host}:{number}"] = worker
    return made


@pytest.mark.parametrize(
    ("name", "meant"),
    [("db-2:3", ["db-2:3"]), ("3", ["db-2:3"]), ("db-2", ["db-2:3"]), ("db-1", ["db-1:1", "db-1:2"])],
)
def test_the_forms_of_a_worker_name(connection: psycopg.Connection, name: str, meant: list[str]) -> None:
    """By its pid, with its host, or by a whole host."""
    three_workers(connection)

    assert meant == [each.name for each in workers.named(workers.workers(connection), name)]


def test_a_worker_is_named_by_its_id_or_the_beginning(connection: psycopg.Connection) -> None:
    """At least four characters, or the whole id."""
    made = three_workers(connection)["db-2:3"]
    found = workers.workers(connection)

    assert [made] == [each.id for each in workers.named(found, str(made))]
    assert [made] == [each.id for each in workers.named(found, str(made)[:13])]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("db-3", "there is no worker 'db-3'; did you mean db-"),
        ("xyz", "there is no worker 'xyz'; `orchestrator workers list` names them"),
        ("", "there is no worker ''; `orchestrator workers list` names them"),
    ],
)
def test_an_unknown_worker_name_is_refused(connection: psycopg.Connection, name: str, message: str) -> None:
    """With suggestions."""
    three_workers(connection)

    with pytest.raises(OperationRefused) as refused:
        workers.named(workers.workers(connection), name)
    assert str(refused.value).startswith(message)


def test_a_name_of_several_is_refused(connection: psycopg.Connection) -> None:
    """The same pid on two hosts: the error lists them."""
    three_workers(connection)
    connection.execute("UPDATE orchestrator.workers SET pid = 7")

    with pytest.raises(OperationRefused, match=r"'7' names 3 workers: db-1:7 .*; say which by its id"):
        workers.named(workers.workers(connection), "7")


def test_a_second_drain_of_a_worker_changes_nothing(connection: psycopg.Connection) -> None:
    """It is already draining."""
    worker = sleeping_worker(connection)
    (found,) = workers.workers(connection, worker_id=worker)

    assert [True, False] == [workers.drain(connection, found, reason="old host") for _ in range(2)]
    assert ("draining", "old host") == connection.execute(
        "SELECT w.state, a.reason FROM orchestrator.workers AS w, orchestrator.audit AS a"
    ).fetchone()


def test_a_stopped_worker_holds_no_task(connection: psycopg.Connection) -> None:
    """Its tasks are ready for others, and fenced off from it. Tasks of other workers stay theirs."""
    worker = sleeping_worker(connection)
    held = [put(connection, state, worker_id=worker) for state in ("claimed", "running")]
    other = put(connection, "running")
    (found,) = workers.workers(connection, worker_id=worker)

    assert (2, 2) == (found.holds, workers.stop(connection, found, reason="it hangs"))
    assert [("pending", None, None)] * 2 == [
        read(connection, each, "status", "lease", "worker_id") for each in held
    ]
    assert "running" == read(connection, other, "status")
    assert 0 == workers.stop(connection, found, reason=None)
    assert 2 == one(
        connection, "SELECT count(*) FROM orchestrator.audit WHERE action = 'requeue' AND reason = 'it hangs'"
    )


def test_an_operator_may_do_all_of_it(connection: psycopg.Connection) -> None:
    """And a reader nothing."""
    worker = sleeping_worker(connection)
    put(connection, "running", worker_id=worker)
    (found,) = workers.workers(connection)
    connection.execute("SET ROLE orchestrator_reader")
    acts: list[Callable[[], object]] = [
        lambda: queues.set_state(connection, "default", "paused", reason=None),
        lambda: queues.change(connection, "default", Change(priority=1), reason=None),
        lambda: workers.stop(connection, found, reason=None),
    ]
    for act in acts:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            act()
    connection.execute("SET ROLE orchestrator_operator")
    queues.set_state(connection, "default", "paused", reason=None)
    queues.change(connection, "default", Change(priority=1, keep_dead=timedelta(1)), reason=None)
    given_back = workers.stop(connection, found, reason=None)
    connection.execute("RESET ROLE")

    assert 1 == given_back
