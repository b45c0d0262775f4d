"""Workers that are frozen, or that the network has cut off."""

import signal
from pathlib import Path
from uuid import UUID

from tests.recovery.drills import orphans, refused
from tests.recovery.environment import Environment, logged
from tests.recovery.gate import Gate

HELD = 3


def test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_goes_on(
    quick: Environment, tmp_path: Path
) -> None:
    """It does no duty, and its outcomes are refused and counted. Then it serves as a new worker."""
    end = tmp_path / "end"
    victim = quick.hire("-q", "default,own", "-c", str(HELD))
    quick.until(lambda: quick.leads(victim), "it leads")
    ids = quick.run_all("drill.hold", HELD, until=str(end))
    old = quick.id_of(victim)
    successor = quick.hire("-q", "default")

    with orphans(quick):
        victim.signal(signal.SIGSTOP)
        quick.until(lambda: logged(successor, "tasks recovered"), "another one leads and does its duty")
        quick.results(ids)
    before = quick.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    (own,) = quick.enqueue("drill.stamp", queue="own")
    end.touch()
    victim.signal(signal.SIGCONT)
    ((_, pid),) = quick.results([own])
    quick.until(lambda: refused(victim) >= HELD, "every late outcome is refused", of=victim)

    assert victim.pid == pid
    quick.until(lambda: quick.serves(victim, has_beacon=True), "it holds a new beacon", seconds=20)
    assert [(2, 1)] * HELD == quick.losses(ids)
    assert before == quick.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    assert logged(victim, "leader stepped down")
    assert quick.id_of(victim) != old
    assert is_dead(quick, old)


def is_dead(environment: Environment, worker_id: UUID) -> bool:
    return environment.ask("SELECT state FROM orchestrator.workers WHERE id = %s", worker_id) == [("dead",)]


def test_a_worker_in_a_black_hole_stops_its_handlers_and_comes_back_as_a_new_one(quick: Environment) -> None:
    """It is cut off for longer than dead_after. It logs that, and other workers run its tasks."""
    leader = quick.hire("-q", "unused")
    quick.until(lambda: quick.leads(leader), "it leads")
    with Gate(quick.url) as gate:
        victim = quick.hire("-q", "default,own", "-c", str(HELD), url=gate.url)
        ids = quick.run_all("drill.hold", HELD)
        old = quick.id_of(victim)
        quick.hire("-q", "default")

        gate.drop()
        quick.until(lambda: logged(victim, "worker cut off"), "it notices")
        quick.until(lambda: is_dead(quick, old), "it is declared dead")
        gate.restore()
        quick.results(ids)
        (own,) = quick.enqueue("drill.stamp", queue="own")
        ((_, pid),) = quick.results([own])
        quick.until(lambda: refused(victim) >= HELD, "the outcomes of its handlers are refused", of=victim)

        assert victim.pid == pid
        assert [(2, 1)] * HELD == quick.losses(ids)
        assert [(task_id, 1, old) for task_id in ids] == quick.lost(ids)
        assert quick.id_of(victim) != old


def test_a_ghost_claim_is_released_without_counting_the_attempt(quick: Environment) -> None:
    """The claim is committed and its answer is lost. The worker finds the tasks by a look, and they run as if they had
    not been claimed."""
    with Gate(quick.url) as gate:
        process = quick.hire("-q", "ghosts", url=gate.url, settings={"ORCHESTRATOR_POLL_SECONDS": "5"})
        ids: list[int] = []
        # The lost answer may belong to a claim that found no task. Then try once more.
        while not logged(process, "ghosts released"):
            with quick.connection.transaction():
                more = quick.enqueue("drill.stamp", HELD, queue="ghosts")
                gate.cut_after(b"ghosts")
            quick.results(more)
            ids += more

    assert {(1, 0)} == set(quick.losses(ids))
    assert [] == quick.ask("SELECT * FROM orchestrator.attempts")


def test_sigterm_while_the_database_is_away(quick: Environment) -> None:
    """A worker without an outcome ends at once, with 0. A worker with one writes it when the database is back."""
    with Gate(quick.url) as gate:
        idle, busy = (quick.start("-q", queue, url=gate.url) for queue in ("unused", "default"))
        for process in (idle, busy):
            quick.wait_for_ready(process)
        ids = quick.run_all("drill.hold", 1, seconds=0.3)

        gate.shut()
        connection_attempts = gate.connection_attempts
        quick.until(lambda: gate.connection_attempts > connection_attempts + 4, "they try to come back")
        for process in (idle, busy):
            process.signal(signal.SIGTERM)
        code = idle.wait()
        quick.until(lambda: logged(busy, "worker stopping"), "it stops")
        gate.open()

        assert [0, 0] == [code, busy.wait()], idle.log + busy.log
    assert quick.statuses(ids).keys() <= {"completed", "pending"}
