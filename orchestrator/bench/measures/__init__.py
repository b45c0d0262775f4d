"""Everything that can be measured, in the order in which it is."""

from orchestrator.bench.measures import drain, enqueue, pickup
from orchestrator.bench.result import Measure

MEASURES: tuple[Measure, ...] = (
    Measure("drain", "a backlog of no-op async tasks, one worker process", drain.one_process),
    Measure("drain-two", "the same, two worker processes", drain.two_processes),
    Measure("drain-threads", "no-op def tasks, in threads", drain.in_threads),
    Measure("drain-10kb", "payloads of 10 kB", drain.large),
    Measure("enqueue", "one by one, each in its own transaction", enqueue.one_by_one),
    Measure("enqueue-many", "a set in one call", enqueue.many),
    Measure("pickup", "commit to start of the handler, on an idle worker", pickup.idle),
)
