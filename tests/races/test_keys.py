"""Producers with the same key get one task and one id, whatever other sessions do meanwhile."""

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, enqueue, enqueue_many, insert, requeue
from tests.races.setup_rows import key, task, workers
from tests.races.statements import (
    CANCELLED,
    again,
    complete,
    gated,
    held,
    open_again,
    operator,
    settle,
    shut,
    undone,
    worker,
)
from tests.races.stepping import Step

KEYED = [workers("a"), task(1, idempotency_key="k"), key("k", 1)]
EXPIRED = [
    workers("a"),
    task(1, idempotency_key="k"),
    key("k", 1, expires="now - 1 hour"),
]
CANCELLED_ONE = [workers("a"), task(1, "cancelled", idempotency_key="k"), key("k", 1)]
# Without the order of keys, p would hold k and wait for l, and q would hold l and wait for k.
STOPPED_SETS = (
    operator(*undone(enqueue("m"), again(enqueue("n"))), name="r"),
    operator(*held(enqueue_many("k", "m", "l")), name="p"),
    operator(*held(enqueue_many("l", "n", "k")), name="q"),
)


def test_two_producers_get_one_id(arena: Arena) -> None:
    """The second waits for the first, and returns its id."""
    race = arena.explore([], operator(*held(enqueue()), name="p"), operator(*held(enqueue()), name="q"))

    assert {
        "p.enqueue 11, q.enqueue 11; 11 pending": 4,
    } == race.outcomes
    assert {"q enqueue for p", "p enqueue for q"} == race.waits


def test_three_producers_get_one_id(arena: Arena) -> None:
    """In any order of their steps."""
    race = arena.explore([], *(operator(*held(enqueue()), name=name) for name in "pqr"))

    assert {
        "p.enqueue 11, q.enqueue 11, r.enqueue 11; 11 pending",
    } == race.outcomes.keys()


def test_a_rollback_releases_the_key(arena: Arena) -> None:
    """Of the producers that waited for it, one creates the task, and all get its id."""
    race = arena.explore(
        [],
        operator(*undone(enqueue()), name="p"),
        operator(*held(enqueue()), name="q"),
        operator(*held(enqueue()), name="r"),
    )

    assert (
        38
        == race.schedules
        == race.count("; 11 pending") + race.count("; 12 pending") + race.count("; 13 pending")
    )
    assert 38 > race.count("p.enqueue 11, q.enqueue 11, r.enqueue 11") > 0


def test_sets_in_opposite_order_do_not_deadlock(arena: Arena) -> None:
    """Keys are always taken in the same order, for any order of the items."""
    race = arena.explore(
        [],
        operator(*held(enqueue_many("k", "l")), name="p"),
        operator(*held(enqueue_many("l", "k")), name="q"),
        operator(*held(enqueue("l")), name="r"),
    )

    assert race.schedules > 35
    assert 0 == race.count("40P01")


def test_sets_that_are_stopped_in_the_middle_do_not_deadlock(arena: Arena) -> None:
    """Each holds some keys and waits for a key of a third transaction, and needs a key that the other holds."""
    race = arena.explore([], *STOPPED_SETS)

    assert race.schedules > 50
    assert 0 == race.count("40P01")


def test_single_calls_in_opposite_order_may_deadlock_and_lose_nothing(arena: Arena) -> None:
    """Two keys in two statements of one transaction, not sorted: one of the two is rolled back with 40P01."""
    race = arena.explore(
        [],
        operator(*held(enqueue("k"), again(enqueue("l"))), name="p"),
        operator(*held(enqueue("l"), again(enqueue("k"))), name="q"),
    )

    assert 12 == race.schedules
    assert 8 == race.count("40P01")
    assert 0 == race.count("p.enqueue again 40P01", "q.enqueue again 40P01")


def test_a_bare_insert_with_a_key_that_is_taken_is_refused(arena: Arena) -> None:
    """With 23505; the function returns the id."""
    race = arena.explore(
        [],
        operator(*held(insert()), name="p"),
        operator(*held(enqueue()), name="q"),
        operator(*held(insert()), name="r"),
    )

    assert race.count("23505") == race.schedules > 40
    assert race.count("p.insert 23505", "r.insert 23505")
    assert race.schedules > race.count("p.insert 23505")
    assert race.schedules > race.count("r.insert 23505")


def test_an_expired_key_is_taken_once(arena: Arena) -> None:
    """Two callers that find it expired get the same new task."""
    race = arena.explore(EXPIRED, operator(*held(enqueue()), name="p"), operator(*held(enqueue()), name="q"))

    assert {
        "p.enqueue 11, q.enqueue 11; 1 pending, 11 pending": 4,
    } == race.outcomes


def test_an_expired_key_is_deleted_while_it_is_taken(arena: Arena) -> None:
    """The old task is deleted, with its key, while two callers take the key."""
    race = arena.explore(
        EXPIRED,
        operator(*held(enqueue()), name="p"),
        operator(*held(delete(1))),
        operator(*held(enqueue()), name="q"),
    )

    assert (
        38
        == race.schedules
        == race.count("p.enqueue 11", "q.enqueue 11") + race.count("p.enqueue 12", "q.enqueue 12")
    )
    assert {"operator delete for p", "p enqueue for operator", "p enqueue for q"} <= race.waits


def test_a_key_is_free_when_its_task_is_deleted(arena: Arena) -> None:
    """The key is free from the commit of the delete on. Before, a caller gets the old id, without a wait."""
    race = arena.explore(
        KEYED,
        operator(*held(enqueue()), name="p"),
        operator(*held(enqueue()), name="q"),
        operator(*held(delete(1))),
    )

    assert {
        "p.enqueue 1, q.enqueue 1, operator.delete 1": 66,
        "p.enqueue 1, q.enqueue 12, operator.delete 1; 12 pending": 9,
        "p.enqueue 12, q.enqueue 1, operator.delete 1; 12 pending": 9,
        "p.enqueue 11, q.enqueue 11, operator.delete 1; 11 pending": 4,
    } == race.outcomes


def test_sets_and_a_delete_of_their_tasks_do_not_deadlock(arena: Arena) -> None:
    """A delete frees keys in the order in which sets take them."""
    race = arena.explore(
        [*KEYED, task(2, idempotency_key="j"), key("j", 2)],
        operator(*held(enqueue_many("k", "j")), name="p"),
        operator(*held(delete(1, 2))),
        operator(*held(enqueue_many("j", "k")), name="q"),
    )

    assert {
        "p.enqueue 1 2, operator.delete 1 2, q.enqueue 13 14; 13 pending, 14 pending": 9,
        "p.enqueue 1 2, operator.delete 1 2, q.enqueue 1 2": 66,
        "p.enqueue 11 12, operator.delete 1 2, q.enqueue 11 12; 11 pending, 12 pending": 4,
        "p.enqueue 13 14, operator.delete 1 2, q.enqueue 1 2; 13 pending, 14 pending": 9,
    } == race.outcomes


def test_a_set_that_is_stopped_in_the_middle_and_a_delete_do_not_deadlock(arena: Arena) -> None:
    """It has taken an expired key, and needs another; the session that deletes their tasks waits for the first."""
    race = arena.explore(
        [
            workers("a"),
            *(task(n, idempotency_key=name) for n, name in ((1, "j"), (2, "n"))),
            *(key(name, n, expires="now - 1 hour") for n, name in ((1, "j"), (2, "n"))),
        ],
        operator(*undone(enqueue("m"), again(enqueue("o"))), name="r"),
        operator(*held(enqueue_many("j", "m", "n")), name="p"),
        operator(*held(delete(1, 2))),
    )

    assert {"p enqueue for r", "operator delete for p"} <= race.waits
    assert 0 == race.count("40P01")


def test_a_finished_task_keeps_its_key(arena: Arena) -> None:
    """While it moves from one leaf to another, other sessions always see it in one of them."""
    race = arena.explore(
        [workers("a"), task(1, "running", of="a", idempotency_key="k"), key("k", 1)],
        operator(*held(enqueue()), name="p"),
        worker("a", *held(complete("a", 1))),
        operator(*held(delete(1))),
    )

    assert {
        "p.enqueue 1, a.finish 1, operator.delete 1": 14,
        "p.enqueue 1, a.finish 1, operator.delete -; 1 completed": 15,
        "p.enqueue 1, a.finish -, operator.delete 1": 21,
        "p.enqueue 11, a.finish 1, operator.delete 1; 11 pending": 1,
        "p.enqueue 11, a.finish -, operator.delete 1; 11 pending": 9,
    } == race.outcomes


def test_an_enqueue_that_waited_for_a_key_reads_the_key_again(arena: Arena) -> None:
    """It stops in the middle of its statement, where it reads the clock. Meanwhile the task is deleted, and another
    caller takes the key."""
    arena.build_gate()

    race = arena.explore(
        KEYED,
        operator(shut(), open_again(), name="gate"),
        gated(operator(*held(enqueue()), name="p")),
        operator(enqueue(), name="q"),
        operator(delete(1)),
    )

    assert {
        "p.enqueue 1, q.enqueue 1, operator.delete 1",
        "p.enqueue 1, q.enqueue 12, operator.delete 1; 12 pending",
        "p.enqueue 12, q.enqueue 1, operator.delete 1; 12 pending",
        "p.enqueue 11, q.enqueue 1, operator.delete 1; 11 pending",
        "p.enqueue 11, q.enqueue 11, operator.delete 1; 11 pending",
        "p.enqueue 12, q.enqueue 12, operator.delete 1; 12 pending",
    } == race.outcomes.keys()


def test_a_manual_cancel_frees_the_key(arena: Arena) -> None:
    """The key is free from the commit of the cancel on. Before, a caller gets the old id, without a wait."""
    race = arena.explore(
        KEYED,
        operator(*held(enqueue()), name="p"),
        operator(*held(enqueue()), name="q"),
        operator(*held(cancel(1))),
    )

    assert {
        "p.enqueue 1, q.enqueue 1, operator.cancel 1; 1 cancelled",
        "p.enqueue 1, q.enqueue 12, operator.cancel 1; 1 cancelled, 12 pending",
        "p.enqueue 12, q.enqueue 1, operator.cancel 1; 1 cancelled, 12 pending",
        "p.enqueue 11, q.enqueue 11, operator.cancel 1; 1 cancelled, 11 pending",
    } == race.outcomes.keys()
    assert {"p enqueue for q", "q enqueue for p"} == race.waits


def test_a_cancel_by_the_handler_frees_the_key(arena: Arena) -> None:
    """The worker writes the outcome, and waits for no caller."""
    race = arena.explore(
        [workers("a"), task(1, "running", of="a", idempotency_key="k"), key("k", 1)],
        operator(*held(enqueue()), name="p"),
        operator(*held(enqueue_many("k", "l")), name="q"),
        worker("a", *held(settle("a", CANCELLED, 1))),
    )

    assert 0 == race.count("a.finish -")
    assert race.count("p.enqueue 1,", "q.enqueue 1 ") > 0
    assert race.count("p.enqueue 11", "q.enqueue 11 ") + race.count("p.enqueue 12", "q.enqueue 12 ") > 0
    assert not {wait for wait in race.waits if wait.startswith("a ")}


def test_a_running_task_that_is_cancelled_manually_while_it_ends(arena: Arena) -> None:
    """The first one wins. After the cancel the key is free."""
    race = arena.explore(
        [workers("a"), task(1, "running", of="a", idempotency_key="k"), key("k", 1)],
        operator(*held(enqueue()), name="p"),
        worker("a", *held(complete("a", 1))),
        operator(*held(cancel(1))),
    )

    assert race.schedules == race.count("; 1 completed") + race.count("operator.cancel 1; 1 cancelled")
    assert 0 == race.count("p.enqueue 11", "; 1 completed")
    assert 0 < race.count("p.enqueue 11", "operator.cancel 1; 1 cancelled, 11 pending")


def test_a_cancelled_task_is_requeued_or_its_key_is_taken(arena: Arena) -> None:
    """Never both: an enqueue waits for the requeue, or the requeue waits for the enqueue and is refused."""
    race = arena.explore(
        CANCELLED_ONE,
        operator(*held(enqueue()), name="p"),
        operator(*held(requeue(1))),
        operator(*held(enqueue()), name="q"),
    )

    assert {
        "p.enqueue 1, operator.requeue 1, q.enqueue 1; 1 pending",
        "p.enqueue 11, operator.requeue 23505, q.enqueue 11; 1 cancelled, 11 pending",
    } == race.outcomes.keys()
    assert {
        "p enqueue for operator",
        "q enqueue for operator",
        "operator requeue for p",
        "operator requeue for q",
    } <= race.waits


def test_a_requeue_that_is_rolled_back_leaves_the_key_free(arena: Arena) -> None:
    """A rolled-back enqueue leaves the key to the requeue."""
    undone_requeue = arena.explore(
        CANCELLED_ONE, operator(*held(enqueue()), name="p"), operator(*undone(requeue(1)))
    )
    undone_taker = arena.explore(
        CANCELLED_ONE, operator(*undone(enqueue()), name="p"), operator(*held(requeue(1)))
    )

    assert undone_requeue.schedules == undone_requeue.count("; 1 cancelled, 11 pending")
    assert 0 < undone_taker.count("operator.requeue 1; 1 pending")
    assert undone_taker.schedules == undone_taker.count("; 1 pending") + undone_taker.count(
        "23505; 1 cancelled"
    )


def test_an_enqueue_with_an_old_snapshot_does_not_take_the_key_of_a_requeued_task(arena: Arena) -> None:
    """It began before the requeue and still sees the task cancelled: it fails with 40001."""
    old = Step("enqueue", b"SELECT orchestrator.enqueue('mail', key => 'k')")
    look = Step("snapshot", b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 WHERE false")
    race = arena.explore(
        CANCELLED_ONE,
        operator(look, old, Step("commit enqueue", b"COMMIT"), name="p"),
        operator(requeue(1)),
    )

    assert {
        "p.enqueue 1, operator.requeue 1; 1 pending",
        "p.enqueue 40001, operator.requeue 1; 1 pending",
        "p.enqueue 11, operator.requeue 23505; 1 cancelled, 11 pending",
    } == race.outcomes.keys()


def test_a_set_that_is_stopped_in_the_middle_and_a_requeue_do_not_deadlock(arena: Arena) -> None:
    """A requeue of cancelled tasks takes their keys back in the order in which sets take them."""
    race = arena.explore(
        [
            workers("a"),
            *(task(n, "cancelled", idempotency_key=name) for n, name in ((1, "n"), (2, "j"))),
            *(key(name, n) for n, name in ((1, "n"), (2, "j"))),
        ],
        operator(*undone(enqueue("m"), again(enqueue("o"))), name="r"),
        operator(*held(enqueue_many("j", "m", "n")), name="p"),
        operator(*held(requeue(1, 2))),
    )

    assert {"p enqueue for r", "operator requeue for p", "p enqueue for operator"} <= race.waits
    assert 0 == race.count("40P01")
    assert 0 < race.count("; 1 pending, 2 pending")
    assert 0 < race.count("operator.requeue 23505")
