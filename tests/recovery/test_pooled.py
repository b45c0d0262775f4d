"""Workers behind PgBouncer in transaction mode: no notifications, no beacons, and another session each time."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import bouncer
from tests.recovery.environment import Environment, logged

TASKS = 300
HELD = 3
PROBES = 3
# The poll of a worker that gets no notifications, and as much again for a busy machine.
LATE_SECONDS = 2.0


def test_workers_behind_pgbouncer_work_and_a_late_beat_shows_a_dead_one(
    server_url: str, quick: Environment, tmp_path: Path
) -> None:
    """They share the server's sessions with each other, prepare no statements there, and log that they get no
    notifications."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(quick.url, quick.folder("bouncer")) as url:
        workers = [quick.start("-q", "default", "-c", "5", url=url) for _ in range(2)]
        for process in workers:
            quick.wait_for_ready(process, has_beacon=False)
        quick.results(quick.enqueue("drill.stamp", TASKS))
        victim = quick.hire("-q", "held", url=url, has_beacon=False)
        ids = quick.enqueue("drill.hold", HELD, queue="held")
        quick.until(lambda: quick.are(ids, "running"), "it holds them")
        gone = quick.id_of(victim)

        victim.kill()
        quick.hire("-q", "held", url=url, has_beacon=False)
        quick.results(ids)
        quick.until(lambda: all(logged(p, "listen deaf") for p in workers), "they find themselves deaf")

        assert [(task_id, 1, gone) for task_id in ids] == quick.lost(ids)
        assert [(None,)] == quick.ask("SELECT DISTINCT beacon FROM orchestrator.workers")
        assert [None, None] == [p.popen.poll() for p in workers]
        assert not any(logged(p, "duty failed") or logged(p, "connection lost") for p in workers)


def test_a_worker_without_notifications_starts_tasks_within_its_poll_and_logs_that_once(
    quick: Environment, record_property: Callable[[str, object], None]
) -> None:
    """The poll of workers with notifications may be long. This worker finds single tasks within about a second, and
    delayed tasks when they are due. It logs once that it gets no notifications."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(quick.url, quick.folder("bouncer")) as url:
        process = quick.hire(
            "-q", "default", url=url, has_beacon=False, settings={"ORCHESTRATOR_POLL_SECONDS": "60"}
        )
        quick.until(lambda: logged(process, "listen deaf"), "it finds itself deaf", of=process)
        waits = []
        for _ in range(PROBES):
            begun = time.time()
            ((moment, _),) = quick.results(quick.enqueue("drill.stamp"))
            waits.append(moment - begun)
        # Later than the next poll, so that the worker knows of them when it goes to sleep.
        begun = time.time()
        delays = [1.5 + 0.2 * n for n in range(PROBES)]
        ids = [task_id for delay in delays for task_id in quick.enqueue("drill.stamp", delay=delay)]
        stamps = quick.results(ids)
        late = [moment - begun - delay for delay, (moment, _) in zip(delays, stamps, strict=True)]

        record_property("deaf_ms", " ".join(f"{1000 * w:.0f}" for w in waits))
        record_property("deaf_late_ms", " ".join(f"{1000 * w:.0f}" for w in late))
        assert max(waits) < LATE_SECONDS
        assert -0.05 < min(late)
        assert sorted(late)[PROBES // 2] < LATE_SECONDS / 4
        assert 1 == len(logged(process, "listen deaf"))
