"""Faults of PostgreSQL: ended backends, a restarted or crashed server, and used-up connections, held snapshots,
locked rows."""

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from tests.chaos.fleet import as_role
from tests.chaos.schedule import Fault
from tests.chaos.targets import Targets

CROWD_MAX = 300
BACKENDS = """
SELECT pid FROM pg_stat_activity WHERE usename IN ('chaos_worker', 'chaos_producer') AND pid <> pg_backend_pid()
ORDER BY pid
"""


def backends(targets: Targets) -> list[int]:
    return [int(str(pid)) for (pid,) in targets.ask(BACKENDS)]


def terminate(targets: Targets, fault: Fault) -> int:
    """pg_terminate_backend."""
    found = backends(targets)
    if not found:
        return 0
    targets.ask("SELECT pg_terminate_backend(%s)", found[int(fault.where * len(found))])
    return 1


def kill_backend(targets: Targets, fault: Fault) -> int:
    """kill -9 of a backend: the server ends all sessions, and recovers."""
    found = backends(targets)
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(found[int(fault.where * len(found))], signal.SIGKILL)
    return 1


def restart(targets: Targets, _fault: Fault) -> int:
    """A fast restart. If the server does not stop within a minute: a crash, and a remark about the cause."""
    try:
        targets.server.restart("fast")
    except subprocess.TimeoutExpired as error:
        targets.remark(
            f"the server did not stop in {error.timeout} s; still there:\n{children(targets.server.pid)}"
        )
        targets.server.restart("immediate")
        targets.record("server crashed", "", "it did not stop")
        return 0
    return 1


def children(postmaster: int) -> str:
    """Return what the processes of a server report, and where in the kernel they are."""
    told = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (place / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if int(parent) == postmaster:
                words = (place / "cmdline").read_text().replace("\0", " ").strip()
                told.append(f"{place.name} {state} {(place / 'wchan').read_text()} {words}")
    return "\n".join(told)


def crash(targets: Targets, _fault: Fault) -> int:
    """An immediate stop, and recovery."""
    targets.server.restart("immediate")
    return 1


def kill_postmaster(targets: Targets, _fault: Fault) -> int:
    """kill -9 of the postmaster."""
    targets.server.kill()
    targets.server.start()
    return 1


def crowd(targets: Targets, fault: Fault) -> int:
    """All connections are taken."""
    url = as_role(targets.server.url("chaos"), "chaos_crowd")
    stack = ExitStack()
    # Ends: there are only so many.
    with suppress(psycopg.OperationalError):
        for _ in range(CROWD_MAX):
            stack.enter_context(psycopg.connect(url, connect_timeout=2))

    def leave() -> None:
        with suppress(psycopg.Error):
            stack.close()

    targets.later(0.3 + 0.5 * fault.how * targets.dead_after_seconds, leave)
    return 1


def hold_snapshot(targets: Targets, fault: Fault) -> int:
    """An old snapshot is held."""
    targets.hands.look(fault.kind, 1 + 4 * fault.how)
    return 0


def lock_rows(targets: Targets, fault: Fault) -> int:
    """An open manual UPDATE."""
    targets.hands.lock(fault.kind, 0.2 + 1.5 * fault.how)
    return 0
