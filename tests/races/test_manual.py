"""Two manual changes of one task. A move between leaves makes the other, waiting change fail with 40001, and the
client repeats it."""

from tests.races.conftest import Arena
from tests.races.manual import cancel, delete, requeue, requeue_dead
from tests.races.setup_rows import crew, task
from tests.races.statements import claim, complete, hand, held, worker

BURIED = [crew("a"), task(1, "dead_letter", of="a"), task(2, "dead_letter", of="a")]


def test_a_dead_letter_is_requeued_by_two(arena: Arena) -> None:
    """It runs again, once. The late session gets 40001, or requeues a task that already waits."""
    race = arena.explore(
        BURIED[:2],
        hand(*held(requeue(1)), name="p"),
        hand(*held(requeue(1)), name="q"),
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


def test_all_dead_letters_are_requeued_while_one_is_already(arena: Arena) -> None:
    """A task that another session has requeued meanwhile is not fenced off from its new worker."""
    race = arena.explore(
        BURIED,
        hand(*held(requeue_dead()), name="p"),
        hand(*held(requeue(2)), name="q"),
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
        [crew("a"), task(1)],
        hand(*held(requeue(1)), name="p"),
        hand(*held(cancel(1)), name="q"),
        hand(*held(delete(1)), name="r"),
    )

    assert 40 == race.schedules
    assert 0 < race.count("40001") < 40
