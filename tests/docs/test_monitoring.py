"""Alerts and dashboard use existing metrics with existing labels. Alerts link to existing advice."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from orchestrator.observe.metric_definitions import METRICS, Metric
from orchestrator.task.tally import ENDS, ERRORS, WORDS
from tests.docs.pages import REPOSITORY

ALERTS = REPOSITORY / "docs" / "monitoring" / "alerts.yml"
DASHBOARD = REPOSITORY / "docs" / "monitoring" / "dashboard.json"

SERVED = {name: metric for metric in METRICS for name in (
    [f"{metric.full_name}_{part}" for part in ("bucket", "sum", "count")]
    if metric.kind == "histogram" else [metric.full_name]
)}  # fmt: skip
# Prometheus adds these labels to each target that it scrapes.
OF_SCRAPES = {"instance", "job"}
SELECTOR = re.compile(r"\b(?P<name>(?:orchestrator_\w+|up))\b(?:\{(?P<labels>[^}]*)\})?")
BY = re.compile(r"\bby \(([^)]*)\)")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"[^\"]*\"")
OUTCOMES = re.compile(r'orchestrator_attempts_ended_total\{[^}]*outcome([=!])~"([^"]+)"')
USED = re.compile(r"\$labels\.(\w+)|\{\{(\w+)\}\}")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression with the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            yield f'{name}{{{label}=""}}', ""


def faults(expression: str, shown: str = "") -> list[str]:
    """Name each metric and each label that an expression uses but that does not exist."""
    found: list[str] = []
    metrics: list[Metric] = []
    for selector in SELECTOR.finditer(expression):
        name = selector["name"]
        if name == "up":
            continue
        if name not in SERVED:
            found.append(f"there is no {name}")
            continue
        metrics.append(SERVED[name])
        has = {*SERVED[name].labels, *OF_SCRAPES} | ({"le"} if name.endswith("_bucket") else set())
        found += [
            f"{name} has no {label}" for label in LABEL.findall(selector["labels"] or "") if label not in has
        ]
    known = {label for metric in metrics for label in metric.labels} | OF_SCRAPES
    if any(metric.kind == "histogram" for metric in metrics):
        known.add("le")
    grouped = [label.strip() for labels in BY.findall(expression) for label in labels.split(",")]
    used = [one or other for one, other in USED.findall(shown)]
    found += [f"nothing here has {label}" for label in (*grouped, *used) if label not in known]
    return found


@pytest.mark.parametrize(("expression", "shown"), list(expressions()))
def test_every_metric_in_a_query_exists(expression: str, shown: str) -> None:
    """Each metric and each label of a query exists."""
    assert [] == faults(expression, shown)
    assert expression.count("(") == expression.count(")")
    assert SELECTOR.search(expression)


@pytest.mark.parametrize(
    ("expression", "shown", "fault"),
    [
        ("rate(orchestrator_tasks_finished_total[5m])", "", "there is no orchestrator_tasks_finished_total"),
        ('orchestrator_queue_tasks{type="t"}', "", "orchestrator_queue_tasks has no type"),
        ("sum by (queue) (orchestrator_worker_busy)", "", "nothing here has queue"),
        ("orchestrator_task_wait_seconds", "", "there is no orchestrator_task_wait_seconds"),
        (
            "max by (queue) (orchestrator_queue_dead_letters)",
            "in {{ $labels.type }}",
            "nothing here has type",
        ),
    ],
)
def test_a_wrong_name_is_found(expression: str, shown: str, fault: str) -> None:
    """An alert with a wrong name would never fire."""
    assert [fault] == faults(expression, shown)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_the_problem_and_links_to_the_advice(rule: dict[str, Any]) -> None:
    """An alert has a summary and a severity. The section of the page that it links to exists."""
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (REPOSITORY / page).read_text(), re.MULTILINE)

    assert rule["alert"].startswith("Orchestrator")
    assert rule["annotations"]["summary"]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_rate_of_errors_is_that_of_the_statistics() -> None:
    """The alert and the dashboard list the same outcomes as `error_rate`: errors, and attempts that do not count."""
    rest = [word for word in WORDS if word not in ENDS]
    listed = [(how, words.split("|")) for text, _ in expressions() for how, words in OUTCOMES.findall(text)]

    assert len(listed) >= 4
    assert {"=": sorted(ERRORS), "!": sorted(rest)} == {how: sorted(words) for how, words in listed}


def test_every_urgent_condition_has_an_alert() -> None:
    """No alert exists twice."""
    names = [rule["alert"].removeprefix("Orchestrator") for rule in rules()]

    assert len(names) == len(set(names))
    assert {
        "ProcessDown", "NoWorkers", "NoLeader", "DeadLettersGrow", "FailureRate", "QueueDeep", "Utilisation",
        "TasksOld", "HorizonHeld", "NotifyQueueFills",
    } <= set(names)  # fmt: skip


def test_no_two_panels_of_the_dashboard_share_a_place() -> None:
    """No two panels share an id either."""
    places = [tuple(panel["gridPos"].values()) for panel in dashboard()["panels"]]

    assert len(places) == len(set(places))
    assert len(places) == len({panel["id"] for panel in dashboard()["panels"]})
