"""The process under fault: a worker, which writes its counts when it ends, or a producer."""

import json
import os
from collections import Counter
from pathlib import Path

from prometheus_client import REGISTRY

from orchestrator import observe
from tests.chaos import handler_log, producer
from tests.feature import child as wired


def work(who: str, *words: str) -> None:
    """Run `orchestrator worker WORDS`, with a feature."""
    handler_log.open_for(who, os.environ["CHAOS_LEDGER_URL"])
    # It has no port for its metrics, so it writes them to a file when it ends.
    observe.count()
    try:
        wired.work("worker", *words)
    finally:
        write_metrics(Path(os.environ["CHAOS_METRICS"]) / f"{who}.json")


def produce() -> None:
    """Run a producer."""
    producer.main()


def write_metrics(path: Path) -> None:
    """Write the counts of this process to a file. A killed process leaves none, also if it is killed during the
    write."""
    counted: Counter[str] = Counter()
    for metric in REGISTRY.collect():
        for sample in metric.samples:
            if sample.name.startswith("orchestrator_") and sample.name.endswith("_total"):
                counted[sample.name] += int(sample.value)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(counted))
    part.replace(path)
