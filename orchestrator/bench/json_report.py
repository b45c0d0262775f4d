"""The output for machines: one JSON document at the end, with all figures."""

from dataclasses import asdict
from typing import Any

import msgspec

from orchestrator.bench.result import Failed, Measure, Result, Skipped, cost
from orchestrator.bench.rounds import Rounds
from orchestrator.bench.screen import Screen, on_standard_error
from orchestrator.bench.system_info import SystemInfo


class JsonReport:
    """Collects the results. Shows the current step on standard error."""

    def __init__(self) -> None:
        self._screen = Screen(on_standard_error())
        self._setting: SystemInfo | None = None
        self._results: list[dict[str, Any]] = []

    def begin(self, setting: SystemInfo) -> None:
        """Store the description of the system."""
        self._setting = setting

    def doing(self, text: str) -> None:
        """Show the current step."""
        self._screen.doing(text)

    def result(self, measure: Measure, result: Result | Skipped | Failed) -> None:
        """Store a result."""
        self._results.append(written(measure, result))

    def end(self) -> None:
        """Print the document."""
        self.fail()
        setting = None if self._setting is None else asdict(self._setting)
        document = {"setting": setting, "results": self._results}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())  # noqa: T201 - what was asked for

    def interrupted(self) -> None:
        """Say that the run was interrupted and there is no document."""
        self._screen.interrupted()

    def fail(self) -> None:
        """Stop the progress display before an error is printed."""
        self._screen.fail()


def written(measure: Measure, result: Result | Skipped | Failed) -> dict[str, Any]:
    """Return a line as an object."""
    if isinstance(result, Skipped):
        return {"measure": measure.name, "line": result.line, "skipped": result.reason}
    if isinstance(result, Failed):
        return {"measure": measure.name, "line": result.line, "failed": result.reason}
    return {
        "measure": measure.name,
        "line": result.line,
        "unit": result.unit,
        "ours": result.figure,
        "floor": result.floor_figure,
        "ratio": result.ratio,
        "floor_is": result.floor_is,
        "rounds": {"ours": [r.figure for r in result.ours], "floor": [r.figure for r in result.floor]},
        "tasks": result.tasks,
        "cost": priced(result.ours, result.tasks),
        "floor_cost": priced(result.floor, result.tasks),
        "details": dict(result.details),
        "goals": [
            {"of": goal.of, "least": goal.least, "most": goal.most, "met": goal not in result.missed()}
            for goal in result.goals
        ],
    }


def priced(rounds: Rounds, tasks: int) -> dict[str, float | None]:
    """Return the cost of the tasks. Each name contains the unit."""
    found = cost(rounds, tasks)
    return {
        "client_cpu_seconds_per_10000": found.client_seconds,
        "server_cpu_seconds_per_10000": found.server_seconds,
        "wal_bytes_per_task": found.wal_bytes,
    }
