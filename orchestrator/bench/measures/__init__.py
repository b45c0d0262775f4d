"""Everything that can be measured, in the order in which it is."""

from orchestrator.bench.measures import (
    enqueue,
    growth,
    memory,
    monitoring_cost,
    pickup,
    producers,
    slow_server,
    snapshot,
    statements,
    throughput,
)
from orchestrator.bench.result import Measure

MEASURES: tuple[Measure, ...] = (
    Measure("throughput", "a backlog of no-op async tasks, one worker process", throughput.one_process),
    Measure("throughput-two", "the same, two worker processes", throughput.two_processes),
    Measure("throughput-threads", "no-op def tasks, in threads", throughput.in_threads),
    Measure("throughput-10kb", "payloads of 10 kB", throughput.large),
    Measure("throughput-network", "1 ms more to the server and back, beside none", slow_server.network),
    Measure("throughput-commit", "2 ms more for a durable commit, beside none", slow_server.commit),
    Measure(
        "observed", "a worker that counts for statistics, beside one that does not", monitoring_cost.observed
    ),
    Measure("statements", "statements by the task, at concurrency 100 and 10", statements.under_load),
    Measure("enqueue", "one by one, each in its own transaction", enqueue.one_by_one),
    Measure("enqueue-many", "a set in one call", enqueue.many),
    Measure("producers", "32 at once, beside workers that are busy or idle", producers.at_once),
    Measure("pickup", "commit to start of the handler, on an idle worker", pickup.idle),
    Measure("pickup-steady", "the same at 200 and 2,000 tasks a second", pickup.steady),
    Measure("growth", "a drain with much in the tables, beside little", growth.grown),
    Measure("snapshot", "a drain while a transaction stays open, beside before", snapshot.held),
    Measure("idle", "what a worker says and costs with nothing to do", statements.idle),
    Measure("memory", "what a worker holds: memory, connections", memory.held),
)
