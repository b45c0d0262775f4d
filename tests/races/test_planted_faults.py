"""Statements with one part missing: the races must find each of them, or the races would prove nothing.

Each test plants its fault in the product's own text, so that text must be found there. Some faults harm no task, but
make a session wait or fail without need. The answer to that session then shows the fault.
"""

import pytest

from tests.races.conftest import Arena
from tests.races.manual import enqueue, raise_priority, requeue, sql
from tests.races.setup_rows import task, workers
from tests.races.statements import (
    DEAD_LETTERED,
    SNOOZED,
    beat,
    begin,
    broken,
    claim,
    complete,
    deregister,
    duty,
    elect_at_once,
    gated,
    held,
    leader,
    open_again,
    operator,
    recover,
    resign,
    settle,
    shut,
    sweep,
    worker,
)
from tests.races.stepping import Step
from tests.races.test_keys import STOPPED_SETS
from tests.races.test_leading import C_LEADS, TERM_ENDS

GATE = operator(shut(), open_again(), name="gate")
LATE = workers("ab", late="a")

# The statement, the part that is removed, and its replacement.
UNFENCED = {
    "finish": (complete("a", 1), "AND t.lease OPERATOR(pg_catalog.=) g.lease", ""),
    "snooze": (settle("a", SNOOZED, 1), "AND t.lease = g.lease AND g.ending = 'waiting'", ""),
    "dead letter": (
        settle("a", DEAD_LETTERED, 1),
        "AND t.lease = g.lease AND g.ending IN",
        "AND g.ending IN",
    ),
    "begin": (begin("a", 1), "AND held.lease = g.lease", ""),
}


@pytest.mark.parametrize("what", UNFENCED)
def test_a_write_without_its_lease_is_caught(arena: Arena, what: str) -> None:
    """An operator requeues, another worker claims, and the first one still writes."""
    with pytest.raises(AssertionError, match="I4: a moved task 1"):
        arena.explore(
            [workers("ab"), task(1, "claimed", of="a")],
            worker("a", broken(*UNFENCED[what])),
            operator(*held(requeue(1))),
            worker("b", *held(claim("b"))),
        )


@pytest.mark.parametrize("step", [claim("a"), sweep()], ids=["claim", "sweep"])
def test_a_wait_instead_of_skip_locked_is_caught(arena: Arena, step: Step) -> None:
    """Without SKIP LOCKED all workers wait for each other."""
    race = arena.explore(
        [workers("ab"), task(1), task(2, "scheduled", run_at="now - 1 hour")],
        worker("a", *held(broken(step, "SKIP LOCKED"))),
        worker("b", *held(claim("b")), *held(sweep())),
    )

    assert race.waits


def test_a_claim_of_a_task_that_is_not_ready_is_caught(arena: Arena) -> None:
    """It takes tasks that another worker holds."""
    with pytest.raises(AssertionError, match=r"I4|I16"):
        arena.explore(
            [workers("ab"), task(1)],
            worker("a", broken(claim("a"), "AND ready.status = 'pending'")),
            worker("b", claim("b")),
        )


def test_a_recovery_of_unlocked_tasks_is_caught(arena: Arena) -> None:
    """Stopped in the middle, it takes a task from a worker that has claimed it meanwhile."""
    arena.build_gate()
    unlocked = broken(recover(), "        FOR UPDATE SKIP LOCKED\n    ) AS t", "    ) AS t")

    with pytest.raises(AssertionError, match=r"no worker holds|is alive"):
        arena.explore(
            [LATE, task(1, "running", of="a")],
            GATE,
            gated(leader(broken(unlocked, "AND t.lease = o.lease"))),
            operator(requeue(1)),
            worker("b", claim("b")),
        )


def test_a_death_without_a_second_check_is_caught(arena: Arena) -> None:
    """Stopped in the middle, it declares a worker dead whose beat has just succeeded."""
    arena.build_gate()

    race = arena.explore(
        [LATE, task(1, "running", of="a")],
        GATE,
        gated(leader(broken(recover(), "    FOR UPDATE SKIP LOCKED\n),\ndead", "),\ndead"))),
        worker("a", beat("a")),
    )

    assert race.count("leader.recover 1", "a.beat True")


def test_an_attempt_counted_for_a_task_that_has_not_begun_is_caught(arena: Arena) -> None:
    """The crash of another task's worker must cost no attempt."""
    with pytest.raises(AssertionError, match=r"I10: leader moved task 1 from claimed to pending: \+0"):
        arena.explore(
            [LATE, task(1, "claimed", of="a")],
            leader(
                broken(
                    recover(),
                    "ELSE greatest(t.attempt, 1) - 1 END",
                    "ELSE t.attempt END",
                )
            ),
        )


def test_a_stopped_worker_that_recovery_skips_is_caught(arena: Arena) -> None:
    """Its last claim committed after it had deregistered."""
    forgetful = broken(recover(later=True), "OR w.id IN (SELECT h.worker_id FROM holder AS h)")

    with pytest.raises(AssertionError, match="I7: task 1 is claimed"):
        arena.explore(
            [LATE, task(1)],
            worker("a", deregister("a")),
            worker("a", *held(claim("a")), session="a claims"),
            afterwards=forgetful,
        )


def test_a_worker_that_moves_rows_is_caught(arena: Arena) -> None:
    """A manual bulk UPDATE fails because of it."""
    moving = sql(
        "finish",
        b"UPDATE orchestrator.tasks SET status = 'completed', lease = NULL, finished_at = now()"
        b" WHERE id = 1 AND lease = 101 RETURNING id",
    )

    with pytest.raises(AssertionError, match="I15"):
        arena.explore(
            [workers("a"), task(1, "running", of="a")],
            worker("a", *held(moving)),
            operator(*held(raise_priority())),
        )


def test_a_key_taken_by_a_snapshot_from_before_the_wait_is_caught(arena: Arena) -> None:
    """A statement that waited for a key looks at old rows, finds none, and takes the key a second time."""
    expired = "WHERE k.expires_at <= orchestrator.clock();"
    unseen = f"{expired[:-1]} OR NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = k.task_id);"
    arena.rebuild("take_key", expired, unseen)

    with pytest.raises(AssertionError, match="I11: 2 tasks have the key k"):
        arena.explore([], operator(*held(enqueue()), name="p"), operator(*held(enqueue()), name="q"))


def test_keys_taken_in_any_order_are_caught(arena: Arena) -> None:
    """Two sets deadlock."""
    arena.rebuild(
        "enqueue_many", "ORDER BY a.value ->> 'type' COLLATE \"C\", a.value ->> 'key' COLLATE \"C\", a.n", ""
    )

    race = arena.explore([], *STOPPED_SETS)

    assert race.count("40P01")


def test_a_duty_without_its_lock_is_caught(arena: Arena) -> None:
    """The fence reads, but locks nothing: the next term begins in the middle of the duty."""
    arena.build_clock()
    fence, write = duty("c", 1)

    with pytest.raises(AssertionError, match=r"I8: .* does a duty of term 1 in that of"):
        arena.explore(
            C_LEADS,
            leader(*held(broken(fence, "FOR KEY SHARE OF w"), write), name="c"),
            TERM_ENDS,
            leader(elect_at_once("b"), name="b"),
        )


def test_a_takeover_without_its_lock_is_caught(arena: Arena) -> None:
    """An UPDATE of is_leader alone ignores the duty's lock."""
    arena.build_clock()

    with pytest.raises(AssertionError, match=r"I8: .* does a duty of term 1 in that of"):
        arena.explore(
            C_LEADS,
            leader(*held(*duty("c", 1)), name="c"),
            TERM_ENDS,
            leader(broken(broken(elect_at_once("b"), "FOR UPDATE OF w"), "FOR UPDATE OF l"), name="b"),
        )


def test_a_resignation_without_its_lock_is_caught(arena: Arena) -> None:
    """It resigns in the middle of its own duty."""
    arena.build_clock()
    own, resigned = resign("c", 1)

    with pytest.raises(AssertionError, match=r"I8: .* does a duty of term 1 in that of None"):
        arena.explore(
            C_LEADS,
            leader(*held(*duty("c", 1)), name="c"),
            leader(*held(broken(own, "FOR UPDATE OF w"), resigned), name="c resigns"),
        )


def test_a_fence_that_does_not_check_its_own_id_is_caught(arena: Arena) -> None:
    """It passes in the term of another leader."""
    arena.build_clock()
    fence, write = duty("c", 1)
    careless = broken(
        fence, "WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s AND", "WHERE w.is_leader AND"
    )

    with pytest.raises(AssertionError, match=r"I8: .* does a duty of term 1 in that of"):
        arena.explore(
            C_LEADS,
            leader(*held(careless, write), name="c"),
            TERM_ENDS,
            leader(elect_at_once("b"), name="b"),
        )
