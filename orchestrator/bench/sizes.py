"""The sizes of the measures: under a minute, some minutes, or longer."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The tasks, rounds and seconds of each measure."""

    name: str
    rounds: int
    work_off: int  # tasks of a backlog
    large: int  # tasks with a payload of 10 kB
    enqueues: int  # one by one, in each round
    many: int  # in one enqueue_many
    producers: int  # at the same time
    producer_enqueues: int  # by each of them, in each round
    probes: int  # tasks whose pickup is timed on an idle worker
    steady_seconds: float  # at each steady rate
    ready: int  # growth: tasks that wait behind the measured ones
    scheduled: int
    finished: int
    queues: int
    snapshot_seconds: float
    idle_seconds: float
    memory: int  # tasks that one worker runs


QUICK = Sizes(
    name="quick", rounds=2, work_off=20_000, large=500, enqueues=300, many=10_000,
    producers=32, producer_enqueues=10, probes=40, steady_seconds=1.0,
    ready=30_000, scheduled=30_000, finished=30_000, queues=20,
    snapshot_seconds=2.0, idle_seconds=3.0, memory=20_000,
)  # fmt: skip
USUAL = Sizes(
    name="usual", rounds=5, work_off=50_000, large=5_000, enqueues=3_000, many=50_000,
    producers=32, producer_enqueues=100, probes=300, steady_seconds=5.0,
    ready=200_000, scheduled=200_000, finished=1_000_000, queues=100,
    snapshot_seconds=15.0, idle_seconds=20.0, memory=300_000,
)  # fmt: skip
FULL = Sizes(
    name="full", rounds=9, work_off=50_000, large=10_000, enqueues=10_000, many=50_000,
    producers=32, producer_enqueues=500, probes=1_000, steady_seconds=20.0,
    ready=1_000_000, scheduled=1_000_000, finished=5_000_000, queues=100,
    snapshot_seconds=60.0, idle_seconds=60.0, memory=1_000_000,
)  # fmt: skip

SIZES: Mapping[str, Sizes] = {sizes.name: sizes for sizes in (QUICK, USUAL, FULL)}
