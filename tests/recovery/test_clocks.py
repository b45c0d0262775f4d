"""Clocks that jump, and clocks that differ: only the database's own clock decides."""

import signal
from typing import LiteralString

from psycopg.conninfo import make_conninfo

from tests.recovery.conftest import old_enough
from tests.recovery.drills import orphans
from tests.recovery.environment import Environment, logged
from tests.worker.processes import Process

JUMPING: LiteralString = """
CREATE TABLE orchestrator.test_jump AS SELECT interval '0' AS by;
GRANT SELECT ON orchestrator.test_jump TO PUBLIC;
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT statement_timestamp() + (SELECT j.by FROM orchestrator.test_jump AS j) $$;
"""
# Each session sees the clock that its connection string names.
DISAGREEING: LiteralString = """
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT statement_timestamp() + coalesce(current_setting('test.ahead', true), '0')::interval $$;
CREATE TABLE orchestrator.test_acts (actor text, leader integer, term bigint);
CREATE FUNCTION orchestrator.test_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orchestrator.test_acts
    SELECT current_setting('test.ahead', true), w.pid, w.term FROM orchestrator.workers AS w WHERE w.is_leader;
    RETURN NULL;
END
$$;
CREATE TRIGGER test_act AFTER UPDATE ON orchestrator.tasks_live
FOR EACH ROW WHEN (OLD.lease = 7 AND NEW.lease IS NULL) EXECUTE FUNCTION orchestrator.test_act();
"""
HELD = 3
# A beat is due only after two rounds of a duty, so that a delayed beat alone does not declare a worker dead.
CALM = {"ORCHESTRATOR_HEARTBEAT_SECONDS": "2", "ORCHESTRATOR_DEAD_AFTER_SECONDS": "6"}


def test_a_jump_of_the_clock_voids_no_live_lease(quick: Environment) -> None:
    """The clock jumps an hour ahead, and back. The leader reads the new time before a live worker can beat again. A
    worker that dies later is found as usual."""
    quick.ask(JUMPING)
    workers = [quick.start("-q", queue, settings=CALM) for queue in ("unused", "unused")]
    victim = quick.start("-q", "default", "-c", str(HELD), settings=CALM)
    for process in (*workers, victim):
        quick.wait_for_ready(process)
    ids = quick.run_all("drill.hold", HELD)
    lost_id = quick.id_of(victim)

    old_enough(quick, 6.0)
    with orphans(quick):
        for jump in ("1 hour", "0"):
            victim.signal(signal.SIGSTOP)
            quick.ask("UPDATE orchestrator.test_jump SET by = %s::interval", jump)
            for _ in range(2):
                another_duty(quick, workers)
            victim.signal(signal.SIGCONT)
            quick.until(lambda: has_beaten(quick, victim.pid), "it beats by the new time", of=victim)
            assert [(1, 0)] * HELD == quick.losses(ids)
            assert quick.are(ids, "running")
            assert quick.id_of(victim) == lost_id

    victim.kill()
    quick.start("-q", "default", settings=CALM)
    quick.results(ids)
    assert [(task_id, 1, lost_id) for task_id in ids] == quick.lost(ids)


def another_duty(environment: Environment, workers: list[Process]) -> None:
    """Wait until one of these workers takes a task back."""

    def done() -> int:
        return sum(len(logged(process, "tasks recovered")) for process in workers)

    before = done()
    environment.until(lambda: done() > before, "a duty is done")


def has_beaten(environment: Environment, pid: int) -> bool:
    return bool(
        environment.ask(
            "SELECT 1 FROM orchestrator.workers WHERE pid = %s"
            " AND abs(extract(epoch FROM beat_at - orchestrator.clock())) < 1",
            pid,
        )
    )


def test_two_leaders_whose_clocks_are_an_hour_apart_never_act_in_one_term(quick: Environment) -> None:
    """Each finds the other's term impossible, and takes the lead again and again. Each duty belongs to a term of its
    own leader."""
    quick.ask(DISAGREEING)
    workers = {
        ahead: quick.start("-q", "unused", url=make_conninfo(quick.url, options=f"-c test.ahead={ahead}"))
        for ahead in ("0s", "3600s")
    }

    with orphans(quick):
        quick.until(
            lambda: quick.ask(
                "SELECT 1 FROM orchestrator.test_acts HAVING count(DISTINCT term) >= 6 AND count(DISTINCT actor) = 2"
            ),
            "both have acted, in turns",
        )

    acts = quick.ask("SELECT DISTINCT term, actor, leader FROM orchestrator.test_acts ORDER BY term")
    assert len(acts) == len({term for term, _, _ in acts})
    assert {(ahead, process.pid) for ahead, process in workers.items()} == {
        (a, leader) for _, a, leader in acts
    }
