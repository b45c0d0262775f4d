"""Two manual changes of one task. If the first moves the row to another leaf, the second, which waits, fails with
40001, and its client repeats it."""

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, requeue, requeue_dead
from tests.races.setup_rows import task, workers
from tests.races.statements import claim, complete, held, operator, worker

DEAD_LETTERS = [workers("a"), task(1, "dead_letter", of="a"), task(2, "dead_letter", of="a")]


def test_two_sessions_requeue_one_dead_letter(arena: Arena) -> None:
    """It runs again, once. The later session gets 40001, or requeues a task that is already pending."""
    race = arena.explore(
        DEAD_LETTERS[:2],
        operator(*held(requeue(1)), name="p"),
        operator(*held(requeue(1)), name="q"),
        worker("a", claim("a"), complete("a", 1)),
    )

    assert {
        "p.requeue 1, q.requeue 1, a.claim 1, a.finish 1; 1 completed": 2,
        "p.requeue 1, q.requeue 1, a.claim -, a.finish -; 1 pending": 22,
        "p.requeue 1, q.requeue 1, a.claim 1, a.finish -; 1 pending": 4,
        "p.requeue 1, q.requeue 1, a.claim 1, a.finish 1; 1 pending": 2,
        "p.requeue 1, q.requeue 40001, a.claim 1, a.finish 1; 1 completed": 3,
        "p.requeue 1, q.requeue 40001, a.claim -, a.finish -; 1 pending": 12,
        "p.requeue 40001, q.requeue 1, a.claim 1, a.finish 1; 1 completed": 3,
        "p.requeue 40001, q.requeue 1, a.claim -, a.finish -; 1 pending": 12,
    } == race.outcomes


def test_one_session_requeues_all_dead_letters_and_another_requeues_one(arena: Arena) -> None:
    """A task that the other session has requeued keeps its new lease."""
    race = arena.explore(
        DEAD_LETTERS,
        operator(*held(requeue_dead()), name="p"),
        operator(*held(requeue(2)), name="q"),
        worker("b", claim("b"), complete("b", 1)),
    )

    assert {
        "p.requeue 2, q.requeue 2, b.claim -, b.finish -; 1 pending, 2 pending": 15,
        "p.requeue 2, q.requeue 40001, b.claim -, b.finish -; 1 pending, 2 pending": 15,
        "p.requeue 40001, q.requeue 2, b.claim -, b.finish -; 1 dead_letter, 2 pending": 15,
        "p.requeue 1, q.requeue 2, b.claim -, b.finish -; 1 pending, 2 pending": 15,
    } == race.outcomes


def test_requeue_cancel_and_delete(arena: Arena) -> None:
    """Three manual changes of one task: it ends in one place, or is gone."""
    race = arena.explore(
        [workers("a"), task(1)],
        operator(*held(requeue(1)), name="p"),
        operator(*held(cancel(1)), name="q"),
        operator(*held(delete(1)), name="r"),
    )

    assert 40 == race.schedules
    assert 0 < race.count("40001") < 40
