"""A new metric needs an edit in one file, and a new outcome of attempts in three; the rest is derived from them.

The test adds both to a copy of the code. The copy counts, writes and serves them.
"""

import json
from pathlib import Path

from tests.house.edited_copy import NEEDS_IT, REVISION, edit_a_copy, run
from tests.house.revision_rules import faults

METRIC = {
    # For the count, the value for Prometheus, and the row of the reference.
    "orchestrator/observe/metric_definitions.py": [
        (
            "    SAMPLE_AGE,\n",
            '    SAMPLE_AGE,\n    counter("leaves_dropped", "Days that are dropped", on(events.LeafDropped)),\n',
        )
    ],
}
OUTCOME = {
    # For the argument of record_statistics, the result of queue_metrics, the share in error_rate, the column for
    # SQLAlchemy, and the rows of the reference.
    "orchestrator/task/tally.py": [
        ('"released", "lost",', '"released", "lost", "eaten",'),
        ("\n}\n", '\n    "eaten": "was eaten",\n}\n'),
        ('"dead_lettered", "lost")', '"dead_lettered", "lost", "eaten")'),
    ],
    # The columns in the tables by minute and by hour.
    f"{REVISION}/1_tables.sql": [
        (
            "lock_timeout = '2s';\n",
            "lock_timeout = '2s';\n"
            "ALTER TABLE orchestrator.statistics ADD COLUMN eaten bigint NOT NULL DEFAULT 0;\n"
            "ALTER TABLE orchestrator.statistics_by_hour ADD COLUMN eaten bigint NOT NULL DEFAULT 0;\n",
        )
    ],
}  # fmt: skip

# Runs in the copy: it migrates, counts, and prints the results as JSON.
PROGRAM = """
import json, sys
import psycopg
from prometheus_client import CollectorRegistry
from orchestrator import events, observe
from orchestrator.schema import migrate
from orchestrator.schema.tables import metadata
from tests.docs.reference import metrics_table, outcomes_table

url = sys.argv[1]
migrate.upgrade(url)
registry = CollectorRegistry()
observe.count(registry)
events.emit(events.LeafDropped("tasks_done_20260101"))
with psycopg.connect(url, autocommit=True) as connection:
    rows = [{"queue": "q", "type": "t", "completed": 1, "eaten": 3}]
    for _ in range(2):
        connection.execute("SELECT orchestrator.record_statistics(%s)", [json.dumps(rows)])
    query = "SELECT eaten, error_rate FROM orchestrator.queue_metrics('q', %s::interval) WHERE type = 't'"
    found = [connection.execute(query, [window]).fetchone() for window in ("1 hour", "1 day")]
for_sqlalchemy = [name for name, table in metadata.tables.items() if "eaten" in table.columns]
print(json.dumps([
    registry.get_sample_value("orchestrator_leaves_dropped_total"),
    "| `orchestrator_leaves_dropped_total` | counter |" in metrics_table(),
    found,
    sorted(for_sqlalchemy),
    "| `eaten` | was eaten | as an error |" in outcomes_table(),
]))
"""


def test_a_figure_is_added_by_few_edits(database_url: str, tmp_path: Path) -> None:
    """A metric needs an edit in one file, an outcome in three."""
    edit_a_copy(tmp_path, {**METRIC, **OUTCOME, **NEEDS_IT})
    assert [] == faults(tmp_path / "migrations" / "versions")

    served, is_metric_in_reference, rates, columns, is_outcome_in_reference = json.loads(
        run(tmp_path, "-c", PROGRAM, database_url).splitlines()[-1]
    )

    assert 1.0 == served
    assert [[6, 0.75], [6, 0.75]] == rates
    assert ["orchestrator.statistics", "orchestrator.statistics_by_hour"] == columns
    assert is_metric_in_reference
    assert is_outcome_in_reference
    assert (1, 3) == (len(METRIC), len({**OUTCOME, **NEEDS_IT}))
