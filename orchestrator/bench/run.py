"""The run of the bench: create a database, take one measure after the other, drop the database."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from orchestrator.bench import floors, scratch
from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.bench.meter import Meter
from orchestrator.bench.result import Failed, Measure, Result, Skipped
from orchestrator.bench.signals import Interrupted, Signals
from orchestrator.bench.sizes import Sizes
from orchestrator.bench.system_info import SystemInfo, system_info_of
from orchestrator.postgres import connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be measured, how much of it, and where."""

    measures: Sequence[Measure]
    sizes: Sizes
    url: str | None = None


class Reporter(Protocol):
    """Who is told: a screen, or a document being written."""

    def begin(self, setting: SystemInfo) -> None: ...

    def doing(self, text: str) -> None: ...

    def result(self, measure: Measure, result: Result | Skipped | Failed) -> None: ...

    def end(self) -> None: ...

    def interrupted(self) -> None: ...


def run(play: Run, audience: Reporter) -> int:
    """Measure; return the exit status: 0, 1 if a measure went wrong, or that of the signal that ended it."""
    signals = Signals()
    faults = 0
    try:
        with signals.raised():
            audience.doing("making a database")
            with scratch.database(play.url, signals) as info, TemporaryDirectory() as folder:
                faults = measure_all(play, audience, info, Path(folder))
    except Interrupted as interrupted:
        audience.interrupted()
        return 128 + interrupted.number
    audience.end()
    return 1 if faults else 0


def measure_all(play: Run, audience: Reporter, info: str, folder: Path) -> int:
    """Take one measure after the other in the scratch database; return how many went wrong."""
    faults = 0
    with closing(connect.open_sync(info)) as connection:
        floors.make(connection)
        environment = Environment(info, connection, Meter(connection), play.sizes, folder, audience.doing)
        audience.begin(system_info_of(connection, play.sizes.name))
        for measure in play.measures:
            audience.doing(measure.name)
            try:
                for result in measure.take(environment):
                    audience.result(measure, result)
            except NotMeasured as error:
                faults += 1
                audience.result(measure, Failed(measure.name, str(error)))
    return faults
