"""Faults of PostgreSQL: backends ended, the server restarted or crashed, its connections, snapshots and rows taken."""

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from tests.chaos.fleet import as_role
from tests.chaos.scene import Scene
from tests.chaos.schedule import Fault

CROWD_MAX = 300
BACKENDS = """
SELECT pid FROM pg_stat_activity WHERE usename IN ('chaos_worker', 'chaos_producer') AND pid <> pg_backend_pid()
ORDER BY pid
"""


def backends(scene: Scene) -> list[int]:
    return [int(str(pid)) for (pid,) in scene.ask(BACKENDS)]


def terminate(scene: Scene, fault: Fault) -> int:
    """pg_terminate_backend."""
    found = backends(scene)
    if not found:
        return 0
    scene.ask("SELECT pg_terminate_backend(%s)", found[int(fault.where * len(found))])
    return 1


def kill_backend(scene: Scene, fault: Fault) -> int:
    """kill -9 of a backend: the server ends all sessions, and recovers."""
    found = backends(scene)
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(found[int(fault.where * len(found))], signal.SIGKILL)
    return 1


def restart(scene: Scene, _fault: Fault) -> int:
    """A fast restart; of a server that does not stop within a minute, a crash, and a word of what held it."""
    try:
        scene.server.restart("fast")
    except subprocess.TimeoutExpired as error:
        scene.remark(
            f"the server did not stop in {error.timeout} s; still there:\n{children(scene.server.pid)}"
        )
        scene.server.restart("immediate")
        scene.record("server crashed", "", "it did not stop")
        return 0
    return 1


def children(postmaster: int) -> str:
    """Return what the processes of a server say they are doing, and where in the kernel they are."""
    told = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (place / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if int(parent) == postmaster:
                words = (place / "cmdline").read_text().replace("\0", " ").strip()
                told.append(f"{place.name} {state} {(place / 'wchan').read_text()} {words}")
    return "\n".join(told)


def crash(scene: Scene, _fault: Fault) -> int:
    """An immediate stop, and recovery."""
    scene.server.restart("immediate")
    return 1


def kill_postmaster(scene: Scene, _fault: Fault) -> int:
    """kill -9 of the postmaster."""
    scene.server.kill()
    scene.server.start()
    return 1


def crowd(scene: Scene, fault: Fault) -> int:
    """All connections are taken."""
    url = as_role(scene.server.url("chaos"), "chaos_crowd")
    stack = ExitStack()
    # Ends: there are only so many.
    with suppress(psycopg.OperationalError):
        for _ in range(CROWD_MAX):
            stack.enter_context(psycopg.connect(url, connect_timeout=2))

    def leave() -> None:
        with suppress(psycopg.Error):
            stack.close()

    scene.later(0.3 + 0.5 * fault.how * scene.dead_after_seconds, leave)
    return 1


def hold_snapshot(scene: Scene, fault: Fault) -> int:
    """An old snapshot is held."""
    scene.hands.look(fault.kind, 1 + 4 * fault.how)
    return 0


def lock_rows(scene: Scene, fault: Fault) -> int:
    """A hand's open UPDATE."""
    scene.hands.lock(fault.kind, 0.2 + 1.5 * fault.how)
    return 0
