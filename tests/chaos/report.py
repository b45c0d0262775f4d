"""Write the report of a run: its faults and the checker's findings."""

from collections.abc import Mapping

from tests.chaos.checker import Finding
from tests.chaos.plan import Outcome, Plan


def written(plan: Plan, outcome: Outcome, findings: list[Finding], timelines: Mapping[int, list[str]]) -> str:
    """Return the page."""
    return "\n".join([*faults(plan, outcome), "", *verdicts(findings), *offences(findings, timelines), ""])


def faults(plan: Plan, outcome: Outcome) -> list[str]:
    minute = outcome.faults / max(1.0, outcome.seconds) * 60
    lines = [
        f"seed {plan.seed}: {outcome.faults} faults in {outcome.seconds:.0f} s ({minute:.0f} a minute), "
        f"{plan.workers} workers, {plan.producers} producers",
        f"drained after {seconds(outcome.drained_seconds)}; "
        f"{seconds(outcome.proof_seconds)} for the final tasks; "
        f"not ended after SIGTERM: {', '.join(outcome.stubborn) or 'none'}",
        "",
    ]
    lines += [line for remark in outcome.remarks for line in (*remark.splitlines(), "")]
    return lines + [f"  {number:6}  {kind}" for kind, number in sorted(outcome.counts.items())]


def seconds(value: float | None) -> str:
    return "NEVER" if value is None else f"{value:.1f} s"


def verdicts(findings: list[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        verdict = "holds " if finding.holds else "BROKEN"
        lines.append(f"{finding.name}  {verdict} {finding.offences:4}  {finding.title}")
        lines += [f"                    {number:8}  {label}" for label, number in finding.judged]
    return lines


def offences(findings: list[Finding], timelines: Mapping[int, list[str]]) -> list[str]:
    lines = []
    for finding in findings:
        for task_id, what in finding.shown:
            lines += [
                "",
                f"{finding.name}: task {task_id}: {what}"
                if task_id is not None
                else f"{finding.name}: {what}",
            ]
            lines += [f"    {line}" for line in timelines.get(task_id or 0, [])]
    return lines
