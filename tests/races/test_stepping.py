"""The race runner itself: it tries every order, recognises a wait, waits for the end of a deadlock, and reports its
findings."""

from collections.abc import Sequence
from itertools import permutations

import psycopg
import pytest

from tests.races.conftest import Arena
from tests.races.manual import lock, requeue, sql
from tests.races.schedules import Choice, following, merges
from tests.races.setup_rows import task, workers
from tests.races.statements import again, broken, claim, complete, held, operator, worker
from tests.races.stepping import Sessions

NOTHING = b"SELECT 1"


def orders(sessions: Sessions) -> list[str]:
    """Run every schedule; return the orders."""
    played: list[str] = []
    beginning: Sequence[Choice] | None = ()
    while beginning is not None:
        story = sessions.play(beginning)
        played.append("".join(choice.taken for choice in story.choices))
        beginning = following(story.choices)
    return played


@pytest.mark.parametrize("lengths", [(1, 1), (3, 3), (2, 1, 2), (2, 2, 2)], ids=str)
def test_every_merge_is_played_once(
    connection: psycopg.Connection, database_url: str, lengths: tuple[int, ...]
) -> None:
    """Without waits, the schedules are all possible orders, and no order occurs twice."""
    names = [name * length for name, length in zip("pqr", lengths, strict=False)]
    actors = [operator(*(sql(f"s{n}", NOTHING) for n in range(len(name))), name=name[0]) for name in names]
    sessions = Sessions(database_url, connection, actors)

    played = orders(sessions)
    sessions.close()

    assert merges(lengths) == len(played)
    assert sorted({"".join(order) for order in permutations("".join(names))}) == sorted(played)


def test_a_waiting_actor_is_recognised_and_takes_no_step(arena: Arena) -> None:
    """A session that waits for a lock has no next step until the other session releases the lock."""
    race = arena.explore(
        [task(1)],
        operator(*held(lock(1)), name="p"),
        operator(*held(lock(1)), name="q"),
    )

    assert {"p.lock 1, q.lock 1; 1 pending": 4} == race.outcomes
    assert ({"p lock for q", "q lock for p"}, 2) == (race.waits, race.waited)


def test_the_runner_waits_for_the_end_of_a_deadlock(arena: Arena) -> None:
    """Both wait, and neither has a next step. The server ends it, and the schedule goes on."""
    race = arena.explore(
        [task(1), task(2)],
        operator(*held(lock(1), again(lock(2))), name="p"),
        operator(*held(lock(2), again(lock(1))), name="q"),
    )

    assert 8 == race.count("40P01")
    assert 12 == race.schedules
    assert 0 == race.count("p.lock again 40P01", "q.lock again 40P01")


def test_a_broken_invariant_is_reported_with_its_schedule(arena: Arena) -> None:
    """The report names the invariant, the actor that broke it, and the order of the steps."""
    unfenced = broken(complete("a", 1), "AND t.lease OPERATOR(pg_catalog.=) g.lease")

    with pytest.raises(AssertionError) as caught:
        arena.explore(
            [workers("ab"), task(1, "running", of="a")],
            operator(requeue(1)),
            worker("b", claim("b")),
            worker("a", unfenced),
        )

    assert "only_the_lease_may_write: I4: a moved task 1 from claimed to completed" in str(caught.value)
    assert "operator.requeue → b.claim → a.finish" in str(caught.value)
