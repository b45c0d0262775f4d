"""A run, from its plan to its report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.chaos import checker, records, report
from tests.chaos.checker import Finding
from tests.chaos.plan import Outcome, Plan
from tests.chaos.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run."""

    plan: Plan
    outcome: Outcome
    findings: list[Finding]
    timelines: Mapping[int, list[str]]

    @property
    def page(self) -> str:
        """The report."""
        return report.written(self.plan, self.outcome, self.findings, self.timelines)

    @property
    def broken(self) -> list[str]:
        """The broken invariants, the checks with too few items, and everything that did not end."""
        late = [
            name
            for name, seconds in (
                ("not drained", self.outcome.drained_seconds),
                ("no proof", self.outcome.proof_seconds),
            )
            if seconds is None
        ]
        names = [finding.name for finding in self.findings if not finding.holds]
        thin = checker.thin(self.findings, self.outcome.seconds)
        return names + thin + late + [f"{who} did not end" for who in self.outcome.stubborn]


def run(plan: Plan, folder: Path) -> Run:
    """Run the plan in this folder."""
    supervisor = Supervisor(plan, folder)
    try:
        outcome = supervisor.run()
        with psycopg.connect(supervisor.url, autocommit=True) as connection:
            records.load(connection, folder)
            findings = checker.check(connection)
            return Run(plan, outcome, findings, checker.timelines(connection, findings))
    finally:
        supervisor.close()
