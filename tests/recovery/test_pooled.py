"""Workers behind PgBouncer in transaction mode: no notifications, no beacons, and another session each time."""

from pathlib import Path

import pytest

from tests import bouncer
from tests.recovery.stage import Stage, said

TASKS = 300
HELD = 3


def test_workers_behind_pgbouncer_work_and_a_dead_one_is_missed_by_its_beat(
    server_url: str, quick: Stage, tmp_path: Path
) -> None:
    """They share the server's sessions with each other, prepare nothing there, and say that they are deaf."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(quick.url, quick.folder("bouncer")) as url:
        workers = [quick.start("-q", "default", "-c", "5", url=url) for _ in range(2)]
        for process in workers:
            quick.wait_for_ready(process, lit=False)
        quick.results(quick.enqueue("drill.stamp", TASKS))
        victim = quick.hire("-q", "held", url=url, lit=False)
        ids = quick.enqueue("drill.hold", HELD, queue="held")
        quick.until(lambda: quick.are(ids, "running"), "it holds them")
        gone = quick.id_of(victim)

        victim.kill()
        quick.hire("-q", "held", url=url, lit=False)
        quick.results(ids)
        quick.until(lambda: all(said(p, "listen deaf") for p in workers), "they find themselves deaf")

        assert [(task_id, 1, gone) for task_id in ids] == quick.lost(ids)
        assert [(None,)] == quick.ask("SELECT DISTINCT beacon FROM orchestrator.workers")
        assert [None, None] == [p.popen.poll() for p in workers]
        assert not any(said(p, "duty failed") or said(p, "connection lost") for p in workers)
