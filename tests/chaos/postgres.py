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
    """End a backend with pg_terminate_backend."""
    found = backends(targets)
    if not found:
        return 0
    targets.ask("SELECT pg_terminate_backend(%s)", found[int(fault.where * len(found))])
    return 1


def kill_backend(targets: Targets, fault: Fault) -> int:
    """Kill a backend with SIGKILL: the server ends all sessions, and recovers."""
    found = backends(targets)
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(found[int(fault.where * len(found))], signal.SIGKILL)
    return 1


def restart(targets: Targets, _fault: Fault) -> int:
    """Restart the server (fast). If it does not stop within a minute, crash it, and add a remark about the cause."""
    try:
        targets.server.restart("fast")
    except subprocess.TimeoutExpired as error:
        targets.remark(
            f"the server did not stop in {error.timeout} s; its remaining processes:\n{children(targets.server.pid)}"
        )
        targets.server.restart("immediate")
        targets.record("server crashed", "", "it did not stop")
        return 0
    return 1


def children(postmaster: int) -> str:
    """Return the titles of a server's processes, and where in the kernel they wait."""
    told = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (place / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if int(parent) == postmaster:
                words = (place / "cmdline").read_text().replace("\0", " ").strip()
                told.append(f"{place.name} {state} {(place / 'wchan').read_text()} {words}")
    return "\n".join(told)


def crash(targets: Targets, _fault: Fault) -> int:
    """Stop the server (immediate) and start it: it recovers."""
    targets.server.restart("immediate")
    return 1


def kill_postmaster(targets: Targets, _fault: Fault) -> int:
    """Kill the postmaster with SIGKILL, and start the server again."""
    targets.server.kill()
    targets.server.start()
    return 1


def crowd(targets: Targets, fault: Fault) -> int:
    """Take all connections for a while."""
    url = as_role(targets.server.url("chaos"), "chaos_crowd")
    stack = ExitStack()
    # Ends: the server has fewer connections than that.
    with suppress(psycopg.OperationalError):
        for _ in range(CROWD_MAX):
            stack.enter_context(psycopg.connect(url, connect_timeout=2))

    def leave() -> None:
        with suppress(psycopg.Error):
            stack.close()

    targets.later(0.3 + 0.5 * fault.how * targets.dead_after_seconds, leave)
    return 1


def hold_snapshot(targets: Targets, fault: Fault) -> int:
    """Hold an old snapshot."""
    targets.operators.look(fault.kind, 1 + 4 * fault.how)
    return 0


def lock_rows(targets: Targets, fault: Fault) -> int:
    """Leave a manual UPDATE open for a while."""
    targets.operators.lock(fault.kind, 0.2 + 1.5 * fault.how)
    return 0
