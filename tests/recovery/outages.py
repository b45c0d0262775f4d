"""The drills with the server itself: it restarts, crashes, or is away for a long time. Each needs a server of its
own."""

import time
from pathlib import Path

from tests.recovery.drills import Note
from tests.recovery.environment import Environment, environment, lines
from tests.recovery.gate import Gate
from tests.servers import Server, private
from tests.worker.processes import Process

WORKERS = 4
# A little more than dead_after: then the server is old enough, and workers can be declared dead again.
OLD_ENOUGH_SECONDS = 36.0
HELD = 5

LIMITS = {
    "PostgreSQL restarted (fast): each worker claims again": 5.0,
    "PostgreSQL crashed (immediate): each worker claims again": 5.0,
    "PostgreSQL killed (-9): each worker claims again": 5.0,
    "PostgreSQL back after long: each worker claims again": 5.0,
    "PostgreSQL away: log lines a minute": 6.0,
    "PostgreSQL away: connection attempts a second": 2.0,
    "PostgreSQL away: memory grown by MiB": 8.0,
}


def restarts(directory: Path, rounds: int, note: Note) -> None:
    """End the server in every way, several times. Running tasks go on."""
    directory.mkdir()
    with private(folder=directory) as server, environment(server.url(), directory, {}) as made:
        workers = [made.start("-q", f"default,own{n}") for n in range(WORKERS)]
        for process in workers:
            made.wait_for_ready(process)
        held = [made.enqueue("drill.hold", queue=f"own{n}")[0] for n in range(WORKERS) for _ in range(HELD)]
        made.until(lambda: made.are(held, "running"), "they run")
        for name in LIMITS:
            if "restarted" in name or "crashed" in name or "killed" in name:
                for _ in range(rounds):
                    end(server, name)
                    server.start()
                    claim_again(made, name, note)
                old_enough(made, workers, held)


def end(server: Server, name: str) -> None:
    """End it in the way that the limit names."""
    if "killed" in name:
        server.kill()
    else:
        server.stop("fast" if "fast" in name else "immediate")


def claim_again(made: Environment, name: str, note: Note) -> None:
    """Note when each worker has run a task that only it may claim."""
    at = time.time()
    ids = [made.enqueue("drill.stamp", queue=f"own{n}")[0] for n in range(WORKERS)]
    for moment, _ in made.results(ids):
        note(name, moment - at)


def old_enough(made: Environment, workers: list[Process], held: list[int]) -> None:
    """Wait until workers can be declared dead again, and check that none was meanwhile."""
    time.sleep(OLD_ENOUGH_SECONDS)
    assert made.ask("SELECT state FROM orchestrator.workers") == [("running",)] * len(workers)
    assert made.are(held, "running")
    assert made.losses(held) == [(1, 0)] * len(held)


def away(made: Environment, minutes: float, note: Note) -> None:
    """The server refuses all connections, for minutes, while the workers hold tasks."""
    gates = [Gate(made.url) for _ in range(2)]
    try:
        workers = [made.start("-q", f"default,own{n}", url=gate.url) for n, gate in enumerate(gates)]
        for process in workers:
            made.wait_for_ready(process)
        made.run_all("drill.hold", HELD)
        # The memory should have grown to its usual size before it is measured.
        made.results(made.enqueue("drill.stamp", 2000), seconds=60)
        be_away(workers, gates, minutes, note)
        at = time.time()
        ids = [made.enqueue("drill.stamp", queue=f"own{n}")[0] for n in range(len(gates))]
        for moment, _ in made.results(ids):
            note("PostgreSQL back after long: each worker claims again", moment - at)
        for process in workers:
            assert process.popen.poll() is None, process.log
    finally:
        for gate in gates:
            gate.__exit__()


def be_away(workers: list[Process], gates: list[Gate], minutes: float, note: Note) -> None:
    """Close the proxies for this time, and note what each worker did meanwhile."""
    before = [
        (resident_mib(p), len(lines(p)), g.connection_attempts) for p, g in zip(workers, gates, strict=True)
    ]
    for gate in gates:
        gate.shut()
    time.sleep(minutes * 60)
    for process, gate, (memory, said, connection_attempts) in zip(workers, gates, before, strict=True):
        note("PostgreSQL away: memory grown by MiB", resident_mib(process) - memory)
        # Lines that are logged only once come at the beginning, so half a minute may have all lines of a minute.
        note("PostgreSQL away: log lines a minute", (len(lines(process)) - said) / max(1.0, minutes))
        note(
            "PostgreSQL away: connection attempts a second",
            (gate.connection_attempts - connection_attempts) / (minutes * 60),
        )
    for gate in gates:
        gate.open()


def resident_mib(process: Process) -> float:
    """Return how much memory it has in use."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20
