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
    """The measures to take, their sizes, and the server."""

    measures: Sequence[Measure]
    sizes: Sizes
    url: str | None = None


class Reporter(Protocol):
    """Receives the results: a screen, or a JSON document."""

    def begin(self, setting: SystemInfo) -> None: ...

    def doing(self, text: str) -> None: ...

    def result(self, measure: Measure, result: Result | Skipped | Failed) -> None: ...

    def end(self) -> None: ...

    def interrupted(self) -> None: ...


def run(request: Run, reporter: Reporter) -> int:
    """Measure. Return the exit status: 0, 1 if a measure failed, or the status of the signal that ended the run."""
    signals = Signals()
    faults = 0
    try:
        with signals.raised():
            reporter.doing("making a database")
            with scratch.database(request.url, signals) as info, TemporaryDirectory() as folder:
                faults = measure_all(request, reporter, info, Path(folder))
    except Interrupted as interrupted:
        reporter.interrupted()
        return 128 + interrupted.number
    reporter.end()
    return 1 if faults else 0


def measure_all(request: Run, reporter: Reporter, info: str, folder: Path) -> int:
    """Take one measure after the other in the scratch database. Return the number of failed ones."""
    faults = 0
    with closing(connect.open_sync(info)) as connection:
        floors.make(connection)
        environment = Environment(info, connection, Meter(connection), request.sizes, folder, reporter.doing)
        reporter.begin(system_info_of(connection, request.sizes.name))
        for measure in request.measures:
            reporter.doing(measure.name)
            try:
                for result in measure.take(environment):
                    reporter.result(measure, result)
            except NotMeasured as error:
                faults += 1
                reporter.result(measure, Failed(measure.name, str(error)))
    return faults
