"""Workers and leaders that are killed while they hold tasks."""

import signal

from tests.recovery.environment import Environment

HELD = 3


def test_a_killed_worker_is_declared_dead_long_before_its_beat_is_late(patient: Environment) -> None:
    """Its beacon ends with it. Its running tasks run again, with a loss; its claimed tasks have no loss."""
    leader = patient.hire("-q", "unused")
    patient.until(lambda: patient.leads(leader), "it leads")
    victim = patient.hire("-q", "default", "-c", str(HELD))
    begun = patient.run_all("drill.hold", HELD)
    gone = patient.id_of(victim)
    # The state of a worker that died after a claim, before it started the task.
    (claimed,) = patient.enqueue("drill.stamp")
    patient.ask(
        "UPDATE orchestrator.tasks_live SET status = 'claimed', lease = 7, attempt = 1, claimed_at = now(),"
        " worker_id = %s WHERE id = %s",
        gone,
        claimed,
    )

    victim.kill()
    patient.start("-q", "default")
    patient.results([*begun, claimed])

    assert [(2, 1)] * HELD + [(1, 0)] == patient.losses([*begun, claimed])
    assert [(task_id, 1, gone) for task_id in begun] == patient.lost([*begun, claimed])
    assert was_declared_dead_by_its_beacon(patient)


def test_a_killed_leader_is_replaced_before_its_term_is_over(patient: Environment) -> None:
    """The worker that misses its beacon replaces it. Then the leader's tasks are taken back, like those of any dead
    worker."""
    victim = patient.hire("-q", "default", "-c", str(HELD))
    patient.until(lambda: patient.leads(victim), "it leads")
    begun = patient.run_all("drill.hold", HELD)
    gone = patient.id_of(victim)
    successor = patient.hire("-q", "default")
    ((term,),) = patient.ask("SELECT term FROM orchestrator.workers WHERE is_leader")

    victim.kill()
    ((until,),) = patient.ask("SELECT leader_until FROM orchestrator.workers WHERE is_leader")
    patient.until(lambda: patient.leads(successor), "another one leads")
    ((early, newer),) = patient.ask(
        "SELECT clock_timestamp() < %s, term > %s FROM orchestrator.workers WHERE is_leader", until, term
    )
    patient.results(begun)

    assert (True, True) == (early, newer)
    assert [(2, 1)] * HELD == patient.losses(begun)
    assert [(task_id, 1, gone) for task_id in begun] == patient.lost(begun)
    assert was_declared_dead_by_its_beacon(patient)


def was_declared_dead_by_its_beacon(environment: Environment) -> bool:
    """Return whether the one dead worker was declared dead because of its beacon."""
    ((beacon,),) = environment.ask(
        "SELECT a.finished_at - w.beat_at < interval '7 s' FROM orchestrator.workers AS w"
        " JOIN orchestrator.attempts AS a ON a.worker_id = w.id WHERE w.state = 'dead' LIMIT 1"
    )
    return bool(beacon)


def test_a_clean_exit_leaves_nothing_claimed_or_running(quick: Environment) -> None:
    """The workers stop in the middle of a burst, also the leader. Finished tasks never run again."""
    workers = [quick.start("-c", "50") for _ in range(2)]
    for process in workers:
        quick.wait_for_ready(process)
    ids = quick.enqueue("drill.stamp", 3000)
    quick.until(lambda: quick.statuses(ids).get("completed", 0) > 300, "some are done")

    for process in workers:
        process.signal(signal.SIGTERM)

    assert [0, 0] == [process.wait() for process in workers], "\n".join(p.log for p in workers)
    assert {"completed", "pending"} >= quick.statuses(ids).keys()
    assert [("stopped", False)] * 2 == quick.ask("SELECT state, is_leader FROM orchestrator.workers")
    done = quick.ask("SELECT id, finished_at FROM orchestrator.tasks_done ORDER BY id")
    quick.start("--until-empty").wait()
    assert quick.are(ids, "completed")
    assert done == quick.ask(
        "SELECT id, finished_at FROM orchestrator.tasks_done WHERE id = ANY (%s) ORDER BY id",
        [i for i, _ in done],
    )
    assert {(1, 0)} == set(quick.losses(ids))
