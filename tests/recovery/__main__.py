"""`python -m tests.recovery`: run every drill with the default settings, and compare the times with the limits.

The drills mostly wait, so they run side by side, each on a database of its own. No worker is declared dead before the
server has been up for dead_after (30 s), so all drills begin after that time.
"""

import argparse
import math
import statistics
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.recovery import drills, outages, scenarios
from tests.recovery.environment import Environment, environment

LIMITS = {**drills.LIMITS, **outages.LIMITS, **scenarios.LIMITS}
# The short drills run one after another. Each drill that waits for half a minute runs in a thread of its own.
THREADS: tuple[tuple[Callable[[Environment, int, drills.Note], None], ...], ...] = (
    (drills.worker_killed, drills.leader_killed, drills.leader_resigns, drills.ghost_claim),
    (drills.worker_without_beacon,),
    (drills.leader_and_worker_killed_together, drills.storm),
    (drills.worker_frozen,),
    (drills.leader_frozen,),
    (drills.black_holed,),
)
DEAD_AFTER_SECONDS = 30.0


class Record:
    """The measurements of the drills, and the failed ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.samples: dict[str, list[float]] = defaultdict(list)
        self.failed: dict[str, str] = {}

    def note(self, name: str, value: float) -> None:
        """Record one measurement."""
        with self._lock:
            self.samples[name].append(value)

    def table(self, wanted: set[str]) -> tuple[str, bool]:
        """Return the table as text, and whether every limit was met."""
        width = max(map(len, LIMITS))
        rows = [f"{'':{width}}  {'bar':>6}  {'p50':>7}  {'p99':>7}  {'max':>7}  {'n':>4}"]
        fine = not self.failed
        for name, bar in LIMITS.items():
            if samples := self.samples.get(name):
                passed = max(samples) <= bar
                numbers = (statistics.median(samples), percentile(samples, 99), max(samples))
                figures = "  ".join(f"{number:7.3f}" for number in numbers) + f"  {len(samples):4}"
                rows.append(f"{name:{width}}  {bar:6.1f}  {figures}  {'passed' if passed else 'MISSED'}")
                fine = fine and passed
            elif name in wanted:
                rows.append(f"{name:{width}}  {bar:6.1f}  not measured")
                fine = False
        rows += [f"\n{name} FAILED\n{error}" for name, error in self.failed.items()]
        return "\n".join(rows), fine


def percentile(samples: list[float], percent: int) -> float:
    """Return the least sample that is not below this percentage of the samples."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def main() -> int:
    """Run the command line. Return 1 if a limit was missed."""
    asked = arguments()
    record = Record()
    with servers.temporary_directory() as directory:
        settings = {"max_connections": "500"}
        server = servers.Server(embedded_folder.binaries(), directory / "server", settings=settings).start()
        started = time.monotonic()
        try:
            groups = planned(server, directory, record, asked)
            time.sleep(max(0.0, started + DEAD_AFTER_SECONDS + 1 - time.monotonic()))
            threads = [threading.Thread(target=group, daemon=True) for group in groups]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            server.close()
    table, fine = record.table(set() if asked.only else set(LIMITS))
    sys.stdout.write(table + "\n")
    return 0 if fine else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each drill runs [3]")
    parser.add_argument("--long", action="store_true", help="let the server be away for 10 minutes, not 0.5")
    parser.add_argument("--outage-minutes", type=float, help="for how long the server is away")
    parser.add_argument("--only", default="", help="only the drills whose names hold this word")
    asked = parser.parse_args()
    if asked.outage_minutes is None:
        asked.outage_minutes = 10.0 if asked.long else 0.5
    return asked


def planned(
    server: servers.Server, directory: Path, record: Record, asked: argparse.Namespace
) -> list[Callable[[], None]]:
    """Make a database for each drill, and return the drills of each thread."""
    groups: list[Callable[[], None]] = []
    for drills_of_thread in THREADS:
        chosen = [drill for drill in drills_of_thread if asked.only in drill.__name__]
        todo = [in_own_database(server, directory, record, drill, asked.rounds) for drill in chosen]
        groups.append(partial(in_turn, todo))
    if asked.only in "restarts":
        groups.append(
            reported(record, "restarts", lambda: outages.restarts(directory / "r", asked.rounds, record.note))
        )
    if asked.only in "scenarios":
        groups.append(
            reported(
                record,
                "scenarios",
                lambda: scenarios.scenarios(directory / "s", asked.rounds, record.note),
            )
        )
    if asked.only in "away":

        def away(made: Environment, _rounds: int, note: drills.Note) -> None:
            outages.away(made, asked.outage_minutes, note)

        groups.append(in_own_database(server, directory, record, away, 1))
    return groups


def in_turn(todo: list[Callable[[], None]]) -> None:
    for step in todo:
        step()


def in_own_database(
    server: servers.Server,
    directory: Path,
    record: Record,
    drill: Callable[[Environment, int, drills.Note], None],
    rounds: int,
) -> Callable[[], None]:
    """Make the drill's database. Return the function that runs the drill there."""
    name = drill.__name__
    url = server.migrated(name)
    (directory / name).mkdir()

    def work() -> None:
        with environment(url, directory / name, {}) as made:
            drill(made, rounds, record.note)

    return reported(record, name, work)


def reported(record: Record, name: str, work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs the drill and prints its duration. A failed drill is one entry of the table; the
    others go on."""

    def run_and_report() -> None:
        begun = time.monotonic()
        try:
            work()
        except Exception:
            record.failed[name] = traceback.format_exc()[-9000:]
        sys.stderr.write(f"{name}: {time.monotonic() - begun:.0f} s\n{record.failed.get(name, '')}")

    return run_and_report


if __name__ == "__main__":
    sys.exit(main())
