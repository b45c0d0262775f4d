"""One key, one task: over time, over deletes, over rollbacks, and among many concurrent callers."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.patience import eventually
from tests.schema.rows import insert, one, put, read, refusal

ENQUEUE = "SELECT orchestrator.enqueue('mail', key => 'k')"
TASKS = "SELECT count(*) FROM orchestrator.tasks"
BARE = "INSERT INTO orchestrator.tasks (type, idempotency_key) VALUES ('mail', 'k')"
CANCEL = "SELECT orchestrator.cancel(%s)"
REQUEUE = "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s"
WINDOW = "SELECT expires_at FROM orchestrator.idempotency_keys"
HOLD = (
    "INSERT INTO orchestrator.idempotency_keys (type, key, task_id, expires_at)"
    " VALUES ('mail', 'k', %s, clock_timestamp() + interval '1 day')"
)


def together(database_url: str, count: int, act: Callable[[psycopg.Connection, int], Any]) -> list[Any]:
    """Run a function in this many threads at the same moment, each on its own connection. Return the results."""
    barrier = threading.Barrier(count)

    def one_of_them(number: int) -> Any:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("SET deadlock_timeout = '50ms'")
            barrier.wait(60)
            return act(connection, number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one_of_them, range(count)))


def waits_for_a_lock(connection: psycopg.Connection, pid: int) -> bool:
    return bool(one(connection, "SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid]))


def test_the_same_key_gives_the_first_task(connection: psycopg.Connection) -> None:
    """With any options of the second call. Another type has keys of its own."""
    first = one(connection, ENQUEUE)

    assert first == one(
        connection, "SELECT orchestrator.enqueue('mail', '{\"n\": 2}', key => 'k', priority => 99)"
    )
    assert first != one(connection, "SELECT orchestrator.enqueue('sms', key => 'k')")
    assert 2 == one(connection, TASKS)


@pytest.mark.parametrize("status", ["running", "completed", "dead_letter"])
def test_a_key_is_kept_at_any_end_of_its_task(connection: psycopg.Connection, status: str) -> None:
    """A finished task still has its key, in any leaf."""
    task_id = put(connection, status)
    connection.execute(HOLD, [task_id])

    assert task_id == one(connection, ENQUEUE)


@pytest.mark.parametrize(
    "way",
    [
        "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %(id)s",
        "SELECT orchestrator.cancel(%(id)s)",
    ],
)
@pytest.mark.parametrize("status", ["pending", "scheduled", "claimed", "running"])
def test_a_cancelled_task_frees_its_key(
    connection: psycopg.Connection, status: str, way: LiteralString
) -> None:
    """In any state of the task: the next enqueue makes a new task, which then has the key."""
    connection.execute("SELECT orchestrator.ensure_partition()")
    first = put(connection, status, idempotency_key="k")
    connection.execute(HOLD, [first])
    assert first == one(connection, ENQUEUE)

    connection.execute(way, {"id": first})

    second = one(connection, ENQUEUE)
    assert first != second
    assert second == one(connection, ENQUEUE)
    many = one(connection, 'SELECT id FROM orchestrator.enqueue_many(\'[{"type": "mail", "key": "k"}]\')')
    assert second == many


def test_a_bare_insert_takes_the_key_of_a_cancelled_task(connection: psycopg.Connection) -> None:
    """While that task is not cancelled, it is refused with 23505."""
    first = insert(connection, type="mail", idempotency_key="k")
    assert "23505" == refusal(connection, BARE).sqlstate

    connection.execute(CANCEL, [first])

    second = one(connection, f"{BARE} RETURNING id")
    assert second == one(connection, ENQUEUE)


def test_a_requeued_task_has_its_key_again(connection: psycopg.Connection) -> None:
    """It has the key for the rest of its window, if no other task has taken it, or if that one was cancelled, too."""
    first = one(connection, ENQUEUE)
    window = one(connection, WINDOW)
    connection.execute(CANCEL, [first])
    connection.execute(REQUEUE, [first])
    assert first == one(connection, ENQUEUE)

    connection.execute(CANCEL, [first])
    second = one(connection, ENQUEUE)
    later = one(connection, WINDOW)
    connection.execute(CANCEL, [second])
    connection.execute(REQUEUE, [first])

    assert first == one(connection, ENQUEUE)
    assert window < later == one(connection, WINDOW)


def test_a_requeue_is_refused_where_another_task_has_the_key(connection: psycopg.Connection) -> None:
    """By name, with advice. The old task stays cancelled."""
    first = one(connection, ENQUEUE)
    connection.execute(CANCEL, [first])
    second = one(connection, ENQUEUE)

    for requeue in (REQUEUE, "SELECT orchestrator.requeue(%s)"):
        diagnostic = refusal(connection, requeue, [first])
        assert "23505" == diagnostic.sqlstate
        assert f"task {first} was cancelled, and task {second} has taken its idempotency key since" == (
            diagnostic.message_primary
        )
        assert f"cancel or delete task {second} first" in (diagnostic.message_hint or "")
    assert ("cancelled", "pending") == (read(connection, first, "status"), read(connection, second, "status"))

    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [second])
    connection.execute(REQUEUE, [first])
    assert "pending" == read(connection, first, "status")


def test_two_tasks_of_one_key_are_not_requeued_together(connection: psycopg.Connection) -> None:
    """One UPDATE of both is refused as a whole."""
    ids = [one(connection, ENQUEUE)]
    connection.execute(CANCEL, ids)
    ids.append(one(connection, ENQUEUE))
    connection.execute(CANCEL, ids[1:])

    diagnostic = refusal(
        connection, "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = ANY (%s)", [ids]
    )

    assert "23505" == diagnostic.sqlstate
    assert ["cancelled", "cancelled"] == [read(connection, task_id, "status") for task_id in ids]


def test_a_bulk_requeue_skips_tasks_that_lost_their_key(connection: psycopg.Connection) -> None:
    """With requeue_where. The others run again."""
    first = one(connection, ENQUEUE)
    other = one(connection, "SELECT orchestrator.enqueue('mail', key => 'l')")
    unkeyed = one(connection, "SELECT orchestrator.enqueue('mail')")
    for task_id in (first, other, unkeyed):
        connection.execute(CANCEL, [task_id])
    one(connection, ENQUEUE)

    assert 2 == one(connection, "SELECT orchestrator.requeue_where(status => 'cancelled')")

    assert ["cancelled", "pending", "pending"] == [
        read(connection, task_id, "status") for task_id in (first, other, unkeyed)
    ]


def test_a_requeue_after_the_window_needs_no_key(connection: psycopg.Connection) -> None:
    """After the window of a key, a second run of its task is intended."""
    first = one(connection, ENQUEUE)
    connection.execute(CANCEL, [first])
    second = one(connection, ENQUEUE)
    connection.execute("UPDATE orchestrator.idempotency_keys SET expires_at = clock_timestamp()")

    connection.execute(REQUEUE, [first])

    assert ["pending", "pending"] == [read(connection, task_id, "status") for task_id in (first, second)]


def test_after_its_window_a_key_makes_a_new_task(connection: psycopg.Connection) -> None:
    """24 hours by default, or the given window."""
    first = one(connection, ENQUEUE)
    left = one(connection, "SELECT expires_at - clock_timestamp() FROM orchestrator.idempotency_keys")
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)
    short = one(connection, "SELECT orchestrator.enqueue('sms', key => 'k', key_window => '1 microsecond')")
    connection.execute(
        "UPDATE orchestrator.idempotency_keys SET expires_at = clock_timestamp() WHERE type = 'mail'"
    )

    assert first != one(connection, ENQUEUE)
    assert short != one(connection, "SELECT orchestrator.enqueue('sms', key => 'k')")


def test_a_deleted_task_frees_its_key(connection: psycopg.Connection) -> None:
    """A manual DELETE deletes its key, and no other task's."""
    first = one(connection, ENQUEUE)
    other = one(connection, "SELECT orchestrator.enqueue('sms', key => 'k')")

    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [first])

    assert first != one(connection, ENQUEUE)
    assert other == one(connection, "SELECT orchestrator.enqueue('sms', key => 'k')")


@pytest.mark.parametrize("pruned", ["DELETE FROM {}", "DROP TABLE {}"])
def test_a_pruned_task_frees_its_key(connection: psycopg.Connection, pruned: str) -> None:
    """Retention deletes the row from its leaf, or drops the leaf, and never reads keys."""
    first = put(connection, "completed", idempotency_key="k")
    connection.execute(HOLD, [first])
    leaf = one(connection, "SELECT tableoid::regclass::text FROM orchestrator.tasks")
    assert first == one(connection, ENQUEUE)

    connection.execute(pruned.format(leaf).encode())

    second = one(connection, ENQUEUE)
    assert first != second
    assert second == one(connection, ENQUEUE)


@pytest.mark.parametrize("state", ["new", "expired", "pruned"])
def test_of_thirty_two_concurrent_enqueues_one_makes_the_task(
    connection: psycopg.Connection, database_url: str, state: str
) -> None:
    """All get the same id, also if the key belonged to a task that no longer exists."""
    if state != "new":
        old = one(connection, ENQUEUE)
        connection.execute("DELETE FROM orchestrator.tasks_live")
    if state == "expired":
        connection.execute("UPDATE orchestrator.idempotency_keys SET expires_at = clock_timestamp()")
        old = put(connection)

    ids = together(database_url, 32, lambda own, _: one(own, ENQUEUE))

    assert 1 == len(set(ids))
    assert state == "new" or old not in ids
    assert [(ids[0],)] == connection.execute(
        "SELECT id FROM orchestrator.tasks WHERE idempotency_key = 'k'"
    ).fetchall()


def test_a_rolled_back_enqueue_leaves_the_key_free(connection: psycopg.Connection) -> None:
    """A rolled-back transaction or savepoint."""
    with connection.transaction(force_rollback=True):
        first = one(connection, ENQUEUE)
    with connection.transaction(), connection.transaction(force_rollback=True):
        second = one(connection, ENQUEUE)

    assert one(connection, ENQUEUE) not in (first, second)
    assert 1 == one(connection, TASKS)


@pytest.mark.parametrize("commits", [True, False])
def test_the_second_transaction_waits_for_the_first(
    connection: psycopg.Connection, database_url: str, commits: bool
) -> None:
    """After a commit it gets the first one's id; after a rollback it makes the task."""
    with (
        psycopg.connect(database_url) as first,
        psycopg.connect(database_url, autocommit=True) as second,
        ThreadPoolExecutor(1) as thread,
    ):
        first_id = one(first, ENQUEUE)
        answer = thread.submit(one, second, ENQUEUE)
        eventually(lambda: waits_for_a_lock(connection, second.info.backend_pid), "the second one waits")
        if commits:
            first.commit()
        else:
            first.rollback()

        assert commits == (first_id == answer.result(60))
        assert 1 == one(connection, TASKS)


def test_a_taken_key_is_found_without_a_wait(connection: psycopg.Connection, database_url: str) -> None:
    """An open transaction that has found a taken key delays no other."""
    first_id = one(connection, ENQUEUE)
    with psycopg.connect(database_url) as open_one:
        assert first_id == one(open_one, ENQUEUE)
        connection.execute("SET lock_timeout = '1s'")

        assert first_id == one(connection, ENQUEUE)


def test_a_bare_insert_with_a_taken_key_is_a_unique_violation(connection: psycopg.Connection) -> None:
    """As of any unique key, with a HINT and without the key or the row. The INSERT takes a free key."""
    first = insert(connection, type="mail", idempotency_key="k")
    diagnostic = refusal(
        connection, "INSERT INTO orchestrator.tasks (type, idempotency_key) VALUES ('mail', 'k')"
    )

    assert "23505" == diagnostic.sqlstate
    assert "orchestrator.enqueue" in (diagnostic.message_hint or "")
    assert first == one(connection, ENQUEUE)


def test_the_same_key_twice_in_a_set_makes_one_task(connection: psycopg.Connection) -> None:
    """The first item makes it, and the second gets its id."""
    items = [
        {"type": "mail", "key": "k"},
        {"type": "mail"},
        {"type": "mail", "key": "k"},
        {"type": "sms", "key": "k"},
    ]
    answers = connection.execute(
        "SELECT id, created FROM orchestrator.enqueue_many(%s)", [Jsonb(items)]
    ).fetchall()

    assert [True, True, False, True] == [created for _, created in answers]
    assert answers[0][0] == answers[2][0]
    assert 3 == one(connection, TASKS)


def test_two_sets_in_opposite_orders_never_deadlock(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Keys are taken in sorted order, so the session with the first key gets all of them. 40 rounds of 20 new keys,
    four sessions."""

    def rounds(own: psycopg.Connection, number: int) -> list[list[int]]:
        answers = []
        for n in range(40):
            items = [{"type": "mail", "key": f"{n}-{k}"} for k in range(20)]
            ordered = items if number % 2 else items[::-1]
            rows = own.execute("SELECT id FROM orchestrator.enqueue_many(%s)", [Jsonb(ordered)]).fetchall()
            answers.append(sorted(row[0] for row in rows))
        return answers

    first, *others = together(database_url, 4, rounds)

    assert all(first == other for other in others)
    assert 800 == one(connection, TASKS)
