"""All measures, in the order of the run."""

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
    Measure("throughput-network", "round trips of 1 ms more, compared with none", slow_server.network),
    Measure("throughput-commit", "durable commits of 2 ms more, compared with none", slow_server.commit),
    Measure("observed", "a worker with statistics and metrics, compared with none", monitoring_cost.observed),
    Measure("statements", "statements per task, at concurrency 100 and 10", statements.under_load),
    Measure("enqueue", "one by one, each in its own transaction", enqueue.one_by_one),
    Measure("enqueue-many", "many tasks in one call", enqueue.many),
    Measure("producers", "32 producers at the same time, with busy or idle workers", producers.at_once),
    Measure("pickup", "commit to start of the handler, on an idle worker", pickup.idle),
    Measure("pickup-steady", "the same at 200 and 2,000 tasks per second", pickup.steady),
    Measure("growth", "throughput with full tables, compared with small ones", growth.grown),
    Measure("snapshot", "throughput while a transaction stays open", snapshot.held),
    Measure("idle", "statements and CPU time of an idle worker", statements.idle),
    Measure("memory", "memory and connections of a worker", memory.held),
)
