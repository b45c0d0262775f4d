"""The search of a claim that remembers emptied ranges: beside the ranges, step by step inside them, and all in time."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.claim import ScanPositions, scan_positions
from orchestrator.claim.scan_positions import (
    BACK,
    COSTLY_SECONDS,
    CUTS_MAX,
    FRONT,
    GAP,
    HOUR,
    SLICE_SECONDS,
    STRETCHES_MAX,
    Place,
    Range,
    Trail,
)
from orchestrator.task.claimed import Claimed, unknown

COSTLY = COSTLY_SECONDS * 1.5
VERY_COSTLY = 3 * SLICE_SECONDS
CHEAP = COSTLY_SECONDS / 10
# Two priorities of a queue with strict order lie a thousand years for each point apart; an hour will do.
LOW, HIGH = 100 * HOUR, 50 * HOUR


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the memory, which stands still."""
    stopped = Clock()
    monkeypatch.setattr(scan_positions, "time", stopped)
    # Busy, however long the clock stands between two claims.
    monkeypatch.setattr(scan_positions, "IDLE_SECONDS", float("inf"))
    return stopped


class Spot(NamedTuple):
    """The position of a task, and its queue."""

    position: int
    id: int = 1
    queue: str = "default"

    @property
    def place(self) -> Place:
        return self.position, self.id


def tasks(spots: Iterable[Spot]) -> list[Claimed]:
    """Return claimed tasks with these positions, in the order of a claim."""
    made = (
        unknown(id=spot.id, lease=7, queue=spot.queue, type="mail", attempt=1)._replace(
            position=spot.position
        )
        for spot in spots
    )
    return sorted(made, key=lambda task: (task.queue, task.position, task.id))


def costly(*claims: Iterable[Spot]) -> ScanPositions:
    """Return a memory of these claims, the last of which was slow. It does not look inside yet."""
    made = ScanPositions()
    for spots in claims[:-1]:
        made.learn(tasks(spots), CHEAP)
    made.learn(tasks(claims[-1]), COSTLY + scan_positions.COSTLY_SECONDS_FOR_EACH * 1000)
    return made


def looked_at(ranges: Iterable[Range], spot: Spot) -> int:
    """Return in how many of these ranges a task lies."""
    return sum(spot.queue == part.queue and part.after < spot.place < part.before for part in ranges)


def sees(made: ScanPositions, spot: Spot) -> int:
    ranges = made.ranges([spot.queue])
    assert ranges is not None
    return looked_at(ranges, spot)


def look_inside(made: ScanPositions, clock: Clock, *, seconds: float = COSTLY) -> list[Range]:
    """Wait until a slice is due, and claim nothing. Return where that claim looked."""
    clock.now += 1000.0
    ranges = made.ranges(["default"])
    assert ranges is not None
    made.learn([], seconds)
    return ranges


def test_fast_claims_look_everywhere(clock: Clock) -> None:
    """They skip nothing."""
    made = ScanPositions()
    for n in range(10):
        made.learn(tasks([Spot(LOW + n)]), CHEAP)

    assert made.ranges(["default"]) is None


def test_a_large_batch_may_take_longer(clock: Clock) -> None:
    """Each found task has its cost, with or without dead entries."""
    made = ScanPositions()
    made.learn(tasks(Spot(LOW, n) for n in range(1000)), COSTLY)

    assert not made.is_costly


def test_slow_claims_skip_the_emptied_ranges(clock: Clock) -> None:
    """They look before the ranges, where more urgent tasks arrive, and behind them, where the next tasks arrive."""
    made = costly([Spot(LOW, 5)], [Spot(LOW + 100, 2)])

    assert [
        Range("default", FRONT, (LOW - GAP, 0)),
        Range("default", (LOW + 100, 2), BACK),
    ] == made.ranges(["default"])


def test_each_priority_has_a_range_of_its_own(clock: Clock) -> None:
    """A new task may come behind the last of the more urgent ones and before the first of the others."""
    made = costly([Spot(HIGH), Spot(LOW), Spot(HIGH + 7), Spot(LOW + 7)])

    assert [
        Range("default", FRONT, (HIGH - GAP, 0)),
        Range("default", (HIGH + 7, 1), (LOW - GAP, 0)),
        Range("default", (LOW + 7, 1), BACK),
    ] == made.ranges(["default"])


def test_ranges_that_meet_become_one(clock: Clock) -> None:
    """A range between two others, with a gap to each, joins them."""
    trail = Trail()
    for position in (0, 3 * GAP, int(1.5 * GAP)):
        trail.note((position, 1), (position, 1))
    assert 3 == len(trail.stretches)

    trail.note((GAP, 1), (2 * GAP, 1))

    assert [((0, 1), (3 * GAP, 1))] == trail.stretches


def test_a_range_grows_at_both_ends(clock: Clock) -> None:
    """With each claim; a claim inside it changes nothing."""
    trail = Trail()
    for first, last in ((50, 60), (60, 70), (40, 45), (55, 56)):
        trail.note((first, 1), (last, 9))

    assert [((40, 1), (70, 9))] == trail.stretches


def test_equal_positions_are_ordered_by_their_ids(clock: Clock) -> None:
    """Tasks of one transaction share their position, so a range ends at an id."""
    made = costly([Spot(LOW, 10), Spot(LOW, 20)])

    assert [0, 0, 1] == [sees(made, Spot(LOW, number)) for number in (15, 20, 21)]


def test_one_position_can_be_cut_no_further(clock: Clock) -> None:
    """All its tasks are in one slice, up to the last id."""
    slices = Trail([((LOW, 10), (LOW, 20))]).slices(0, 4)

    assert [1, 1, 1] == [
        sum(after < (LOW, number) < before for after, before in slices) for number in (1, 10, 20)
    ]
    assert not any(after < (LOW, 21) < before for after, before in slices[-1:])


def test_queues_are_remembered_apart(clock: Clock) -> None:
    """There is no memory of a queue without claims. The order of the call is kept."""
    made = costly([Spot(LOW, queue="a"), Spot(HIGH, queue="b")])

    ranges = made.ranges(["c", "b", "a"])

    assert ranges is not None
    assert ["c", "b", "b", "a", "a"] == [part.queue for part in ranges]
    assert Range("c", FRONT, BACK) == ranges[0]
    assert [0, 1, 1, 0] == [
        looked_at(ranges, Spot(position, queue=queue)) for position in (LOW, HIGH) for queue in ("a", "b")
    ]


def test_too_many_ranges_are_forgotten(clock: Clock) -> None:
    """A look beside each of a hundred ranges would be as slow as a look everywhere: that queue begins anew."""
    made = costly([Spot(n * HOUR) for n in range(STRETCHES_MAX)])
    assert 0 == sees(made, Spot(0))

    made.learn(tasks([Spot(STRETCHES_MAX * HOUR)]), CHEAP)

    assert [Range("default", FRONT, BACK)] == made.ranges(["default"])


def test_a_range_that_stays_slow_grows_to_the_front(clock: Clock) -> None:
    """Other workers have claimed there before, and their dead entries slow our claims."""
    made = costly([Spot(LOW)])
    before = Spot(LOW - 3 * GAP)
    assert 1 == sees(made, before)

    made.learn([], COSTLY)

    assert 0 == sees(made, before)


def test_a_twentieth_of_the_time_is_used_for_the_ranges(clock: Clock) -> None:
    """After a look inside, nineteen times as long without one."""
    made = costly([Spot(LOW)])
    look_inside(made, clock, seconds=0.010)
    for later, seen in ((0.15, 0), (0.10, 1)):
        clock.now += later
        assert seen == sees(made, Spot(LOW))


@pytest.mark.parametrize("doublings", [0, 1, 3, 10, 12])
def test_a_cycle_of_slices_shows_every_place_once(clock: Clock, doublings: int) -> None:
    """With slices of any size; the rest is searched all the time."""
    made = costly([Spot(HIGH), Spot(HIGH + 9 * GAP // 10), Spot(LOW), Spot(LOW + 900)])
    for _ in range(doublings):
        look_inside(made, clock, seconds=VERY_COSTLY)
    places = [
        Spot(start + offset)
        for start in (HIGH, LOW)
        for offset in (-GAP, -GAP + 1, -GAP // 3, -1, 0, 1, 450, 900)
    ]

    # Of each of two stretches, and what was reached in front of it.
    slices = 2 * (min(2**doublings, CUTS_MAX) + 1)
    cycle = [look_inside(made, clock, seconds=SLICE_SECONDS) for _ in range(slices)]

    assert [1] * len(places) == [sum(looked_at(ranges, spot) for ranges in cycle) for spot in places]
    outside = [Spot(HIGH - GAP - 1), Spot(HIGH + 20 * GAP), Spot(LOW - GAP - 1), Spot(LOW + 901)]
    assert {slices} == {sum(looked_at(ranges, spot) for ranges in cycle) for spot in outside}


def test_a_look_that_was_cut_off_goes_on_behind_the_last_missed_task(clock: Clock) -> None:
    """At once, until a claim finds less than it wants: a late set is found at the speed of any other."""
    made = costly([Spot(LOW), Spot(LOW + 1000)])
    look_inside(made, clock)
    clock.now += 1000.0
    assert 1 == sees(made, Spot(LOW + 10))
    for n in (1, 2, 3):
        # The last task is an ordinary one.
        made.learn(tasks([Spot(LOW + 10 * n), Spot(LOW + 1000 + n)]), VERY_COSTLY, wanted=2)
        assert [0, 0, 1, 1] == [sees(made, Spot(LOW + p)) for p in (9, 10 * n, 10 * n + 1, 1000)]

    made.learn(tasks([Spot(LOW + 40)]), CHEAP, wanted=2)

    assert 0 == sees(made, Spot(LOW + 41))


@pytest.mark.parametrize("idle_seconds", [1.0, float("inf")])
def test_a_look_that_finds_nothing_missed_is_over(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, idle_seconds: float
) -> None:
    """However full its claim is: with a long backlog all claims are. The same holds for a look at everything."""
    made = costly([Spot(HIGH), Spot(HIGH + 1000), Spot(LOW), Spot(LOW + 1000)])
    look_inside(made, clock)
    monkeypatch.setattr(scan_positions, "IDLE_SECONDS", idle_seconds)
    clock.now += 1000.0
    made.ranges(["default"])

    made.learn(tasks([Spot(HIGH + 1001)]), VERY_COSTLY, wanted=1)

    assert [0, 0, 1] == [sees(made, Spot(p)) for p in (HIGH + 10, LOW + 10, HIGH + 1002)]


def test_a_queue_that_gave_its_limit_is_cut_off(clock: Clock) -> None:
    """The claim as a whole was not. A queue that gave less was seen to its end."""
    made = costly(
        [Spot(LOW, queue=queue) for queue in "ab"], [Spot(LOW + 1000, queue=queue) for queue in "ab"]
    )
    clock.now += 1000.0
    made.ranges(["a", "b"])
    made.learn([], COSTLY)
    clock.now += 1000.0
    made.ranges(["a", "b"])

    made.learn(
        tasks([Spot(LOW + 10, queue="a"), Spot(LOW + 10, queue="b")]),
        COSTLY,
        wanted=4,
        limits={"a": 1, "b": 2},
    )

    ranges = made.ranges(["a", "b"]) or []
    assert [1, 0] == [looked_at(ranges, Spot(LOW + 11, queue=queue)) for queue in "ab"]


def test_a_look_at_everything_goes_on_too(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes the dead entries of a long backlog once, not once for each claim."""
    made = costly([Spot(HIGH), Spot(HIGH + 1000), Spot(LOW), Spot(LOW + 1000)])
    look_inside(made, clock)
    monkeypatch.setattr(scan_positions, "IDLE_SECONDS", 1.0)
    clock.now += 1000.0
    assert made.ranges(["default"]) is None

    made.learn(tasks([Spot(HIGH + 500)]), VERY_COSTLY, wanted=1)
    first = [sees(made, Spot(p)) for p in (HIGH + 400, HIGH + 500, HIGH + 600, LOW + 500)]
    made.learn(tasks([Spot(LOW + 500)]), VERY_COSTLY, wanted=1)
    second = [sees(made, Spot(p)) for p in (HIGH + 600, LOW + 400, LOW + 500, LOW + 600)]
    made.learn([], VERY_COSTLY, wanted=1)
    last = [sees(made, Spot(p)) for p in (HIGH + 600, LOW + 600)]

    assert ([0, 0, 1, 1], [0, 0, 0, 1], [0, 0]) == (first, second, last)
    assert made.is_costly


def test_a_look_that_went_on_is_paid_for_by_its_slowest_claim(clock: Clock) -> None:
    """Its last claim passes next to nothing."""
    made = costly([Spot(LOW), Spot(LOW + 1000)])
    look_inside(made, clock)
    clock.now += 1000.0
    assert 1 == sees(made, Spot(LOW))
    made.learn(tasks([Spot(LOW + 900)]), 0.4, wanted=1)
    assert 1 == sees(made, Spot(LOW + 901))
    made.learn([], CHEAP, wanted=1)

    for later, looks in ((7.0, False), (2.0, True)):
        clock.now += later
        assert looks == any(sees(made, Spot(p)) for p in (LOW - 1, LOW, LOW + 1000))


def test_a_slice_behind_more_urgent_tasks_was_not_seen(clock: Clock) -> None:
    """The claim was full before it came there, so its time says nothing about dead entries. Other slices follow."""
    made = costly([Spot(LOW), Spot(LOW + 1000)])
    for n in range(20):
        clock.now += 1000.0
        made.ranges(["default"])
        made.learn(tasks([Spot(HIGH + n)]), CHEAP, wanted=1)
    assert made.is_costly

    for _ in range(20):
        look_inside(made, clock, seconds=CHEAP)
        if not made.is_costly:
            break
    assert not made.is_costly


def test_without_a_stretch_one_fast_claim_is_enough(clock: Clock) -> None:
    """Each claim looks at everything then, however full it is."""
    made = costly([Spot(n * HOUR) for n in range(STRETCHES_MAX)], [Spot(STRETCHES_MAX * HOUR)])
    clock.now += 1000.0
    assert [Range("default", FRONT, BACK)] == made.ranges(["default"])

    made.learn(tasks([Spot(STRETCHES_MAX * HOUR + 1)]), CHEAP, wanted=1)

    assert not made.is_costly


def test_fast_slices_become_larger(clock: Clock) -> None:
    """Only after a whole cycle: one fast slice says nothing about the others."""
    made = costly([Spot(LOW)])
    for _ in range(3):
        look_inside(made, clock, seconds=VERY_COSTLY)
    assert 8 + 1 == cycle_length(made, clock)

    for _ in range(10):
        look_inside(made, clock, seconds=CHEAP)

    assert 4 + 1 == cycle_length(made, clock)


def cycle_length(made: ScanPositions, clock: Clock) -> int:
    """Return after how many looks inside the same place comes again."""
    looks = 64
    seen = [bool(looked_at(look_inside(made, clock, seconds=SLICE_SECONDS), Spot(LOW))) for _ in range(looks)]
    first = seen.index(True)
    return seen.index(True, first + 1) - first


def test_ranges_are_forgotten_after_a_fast_look_at_everything(clock: Clock) -> None:
    """Then the snapshot has ended, and the dead entries are gone. Not before."""
    made = costly([Spot(LOW), Spot(HIGH)])
    for _ in range(4):
        look_inside(made, clock, seconds=CHEAP)
    assert made.is_costly

    look_inside(made, clock, seconds=CHEAP)

    assert made.ranges(["default"]) is None


def test_with_nothing_to_do_it_looks_everywhere(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a twentieth of the time. If that is fast, dead entries were not the cause."""
    made = costly([Spot(LOW)])
    monkeypatch.setattr(scan_positions, "IDLE_SECONDS", 1.0)
    clock.now += 0.9
    assert made.ranges(["default"]) is not None
    clock.now += 0.6
    assert made.ranges(["default"]) is None
    made.learn([], 0.5)
    clock.now += 9.0
    assert made.ranges(["default"]) is not None

    clock.now += 1.1
    assert made.ranges(["default"]) is None
    made.learn([], CHEAP)

    assert not made.is_costly


def test_large_payloads_and_a_slow_network_do_not_count_as_slow_claims(clock: Clock) -> None:
    """They take their time with or without dead entries."""
    made = ScanPositions()
    large = [task._replace(payload="x" * 10_000) for task in tasks(Spot(LOW, n) for n in range(500))]
    made.learn(large, 0.2)
    made.learn([], 0.150, round_trip_seconds=0.070)

    assert not made.is_costly


def test_one_slow_slice_keeps_the_ranges(clock: Clock) -> None:
    """There are still dead entries."""
    made = costly([Spot(LOW), Spot(HIGH)])
    for n in range(12):
        look_inside(made, clock, seconds=COSTLY if n % 2 else CHEAP)

    assert made.is_costly


def test_a_fast_look_beside_the_ranges_is_no_reason_to_forget(clock: Clock) -> None:
    """It is fast because it skips them."""
    made = costly([Spot(LOW)])
    for n in range(100):
        made.ranges(["default"])
        made.learn(tasks([Spot(LOW + n)]), CHEAP)

    assert 0 == sees(made, Spot(LOW))


positions = st.one_of(
    st.integers(-5, 5).map(lambda n: n * 3 * GAP),
    st.integers(-20 * GAP, 20 * GAP),
    st.integers(-3, 3),
    st.integers(-(2**61), 2**61),
)
spots = st.builds(Spot, positions, st.integers(1, 4), st.sampled_from(["a", "b", "c"]))
claims = st.lists(st.lists(spots, min_size=1, max_size=8), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    claims=claims, doublings=st.integers(0, 5), growths=st.integers(0, 4), others=st.lists(spots, max_size=8)
)
def test_each_position_is_looked_at_within_a_cycle(
    claims: list[list[Spot]], doublings: int, growths: int, others: list[Spot]
) -> None:
    """Inside a range only the slice of its turn looks at it: the next claim reads no dead entry there."""
    clock, queues = Clock(), ["a", "b", "c"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_positions, "time", clock)
        patch.setattr(scan_positions, "IDLE_SECONDS", float("inf"))
        made = costly(*claims)
        for _ in range(growths):
            beside = made.ranges(queues)
            made.learn([], COSTLY)
        for _ in range(doublings):
            clock.now += 1000.0
            made.ranges(queues)
            made.learn([], VERY_COSTLY)
        clock.now += 0.1
        beside = made.ranges(queues) or []
        cycle = []
        # As many as there are slices of the queue that has most of them.
        for _ in range((2**doublings + 1) * STRETCHES_MAX):
            clock.now += 1000.0
            cycle.append(made.ranges(queues) or [])
            made.learn([], SLICE_SECONDS)

    claimed = [spot for claim in claims for spot in claim]
    for spot in [*claimed, *others]:
        assert any(looked_at(ranges, spot) for ranges in cycle)
    remembered = {part.queue for part in beside if part.after != FRONT or part.before != BACK}
    for spot in claimed:
        assert not (spot.queue in remembered and looked_at(beside, spot))
    for ranges in (beside, *cycle):
        assert [part.queue for part in ranges] == sorted(part.queue for part in ranges)
        for queue in queues:
            parts = [part for part in ranges if part.queue == queue]
            assert all(one.before[0] <= other.after[0] for one, other in pairwise(parts))


@settings(max_examples=100, deadline=None)
@given(
    claims=claims,
    late=st.sets(spots, min_size=1, max_size=30),
    wanted=st.integers(1, 8),
    limit=st.integers(1, 8),
    is_idle=st.booleans(),
    doublings=st.integers(0, 3),
)
def test_late_tasks_are_found_without_a_pause_between_claims_that_are_cut_off(
    claims: list[list[Spot]], late: set[Spot], wanted: int, limit: int, is_idle: bool, doublings: int
) -> None:
    """Wherever they are. A claim may meet a task only once, or it would find fewer than there are."""
    clock, queues, left = Clock(), ["a", "b", "c"], late.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_positions, "time", clock)
        patch.setattr(scan_positions, "IDLE_SECONDS", float("inf"))
        made = costly(*claims)
        for _ in range(doublings):
            clock.now += 1000.0
            made.ranges(queues)
            made.learn([], VERY_COSTLY)
        patch.setattr(scan_positions, "IDLE_SECONDS", 1.0 if is_idle else float("inf"))
        looks = 0
        while left:
            clock.now += 1000.0
            looks += 1
            while True:
                ranges = made.ranges(queues) or [Range(queue, FRONT, BACK) for queue in queues]
                assert all(looked_at(ranges, spot) <= 1 for spot in late)
                seen = [sorted(s for s in left if s.queue == q and looked_at(ranges, s)) for q in queues]
                # Each queue has its limit, and all of them together theirs.
                found = [s for spots in seen for s in spots[:limit]][:wanted]
                left -= set(found)
                limits = dict.fromkeys(queues, limit) if limit < wanted else None
                made.learn(tasks(found), SLICE_SECONDS, wanted=wanted, limits=limits)
                if len(found) < wanted and all(len(spots) < limit for spots in seen):
                    break
            # Tasks beside the ranges may fill the first look at everything, and each other one goes on in one queue.
            assert looks <= (1 + len(queues) if is_idle else (2**doublings + 1) * STRETCHES_MAX)
