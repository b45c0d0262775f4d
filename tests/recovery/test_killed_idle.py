"""A worker is killed while it is idle, and its row still asks for notifications."""

import psycopg

from tests.recovery.environment import Environment
from tests.schema.rows import rings
from tests.worker.processes import Process


def test_no_notification_for_a_worker_that_was_declared_dead(quick: Environment) -> None:
    """A NOTIFY makes producers wait for each other. Until the worker is declared dead, they notify in vain. Afterwards
    they do not, although the mark in its row would be valid for longer."""
    leader = quick.hire("-q", "unused")
    quick.until(lambda: quick.leads(leader), "it leads")
    victim = quick.hire("-q", "default")
    quick.until(lambda: asks_to_be_rung(quick, victim), "it sleeps")
    with psycopg.connect(quick.url, autocommit=True) as listener:
        listener.execute("LISTEN orchestrator")
        quick.results(quick.enqueue("drill.stamp"))
        quick.until(lambda: asks_to_be_rung(quick, victim), "it sleeps again")
        assert ["default"] == rings(listener)

        victim.kill()
        before = quick.ask("SELECT state FROM orchestrator.workers WHERE pid = %s", victim.pid)
        quick.enqueue("drill.stamp")
        rung = rings(listener)
        quick.until(lambda: is_dead(quick, victim), "it is declared dead")
        ((marked,),) = quick.ask("SELECT idle_until FROM orchestrator.workers WHERE pid = %s", victim.pid)
        quick.enqueue("drill.stamp", 3)

        assert ([("running",)], ["default"]) == (before, rung)
        assert marked is None
        assert [] == rings(listener)


def asks_to_be_rung(environment: Environment, process: Process) -> bool:
    return bool(
        environment.ask(
            "SELECT 1 FROM orchestrator.workers WHERE pid = %s AND idle_until > clock_timestamp() + interval '30 s'",
            process.pid,
        )
    )


def is_dead(environment: Environment, process: Process) -> bool:
    return environment.ask("SELECT state FROM orchestrator.workers WHERE pid = %s", process.pid) == [
        ("dead",)
    ]
