"""The ledger: every task that this worker holds, from the claim until its outcome is written. Each is in one state.

                   ┌───────────────────────┐ ┌───────────────────────┐
                   │                       ▼ │                       ▼
    claimed ──► waiting ──► starting ──► running ──► ending ──► abandoned
       │           │           │           │           │            │
       └───────────┴───────────┴─────┬─────┴───────────┴────────────┘
                                     ▼
                                  writing ──► gone: written, or stale

    claimed      nothing is decided yet; a suspect stays so until it runs alone (suspects.py)
    waiting      in the line for a slot
    starting     in a slot; it may kill workers, so its row is marked `running` before its handler starts
    running      its handler runs
    ending       the worker has told its handler to end: a timeout, a shutdown, room for a suspect, or no database
    abandoned    its lease is lost, and its handler is told to end: only that it ran goes on record
    writing      its outcome is in the outbox

A task with nothing to write is gone at once: its handler has completed it, or its lease was lost before it began.

A claim on its way has a lease, and no tasks yet: the ledger expects that lease. A *ghost* is a task that the database
holds in our name, and that we neither hold nor expect nor have just let go: the answer of its claim was lost.

Threads: the loop changes states. The heartbeat's thread asks what is held. While the loop is blocked, that thread takes
the tasks in the line, and the claims on their way. `popleft` gives a task to a slot or to that thread, never to both;
the lock does the same for a claim.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from orchestrator.execute import Attempt
from orchestrator.finish import Outbox
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import RELEASED, End, Outcome, State

MOVES: Mapping[State, frozenset[State]] = {
    "claimed": frozenset({"waiting", "writing"}),
    "waiting": frozenset({"starting", "running", "writing"}),
    "starting": frozenset({"running", "writing"}),
    "running": frozenset({"ending", "abandoned", "writing"}),
    "ending": frozenset({"abandoned", "writing"}),
    "abandoned": frozenset({"writing"}),
    "writing": frozenset(),
}

# An attempt that has run for MARK_SECONDS is marked `running`. If the database does not mark it, it is offered again.
MARK_SECONDS = 0.03
MARK_AGAIN_SECONDS = 1.0
# A payload is of no use any more when its attempt has ended. A larger one is not kept until the outcome is written.
KEPT_CHARACTERS_MAX = 2000


class Ledger:
    """What one worker holds. `freed` is called when there may be room for more."""

    def __init__(self, slots: int, outbox: Outbox, *, freed: Callable[[], None]) -> None:
        self._slots = slots
        self._outbox = outbox
        outbox.written = self.leave
        self.freed = freed
        self._held: set[Outcome] = set()
        self.line: deque[Attempt] = deque()
        self.in_slots: set[Attempt] = set()  # starting, running, ending or abandoned
        self.low_water = 0  # with so few in the line there may be room for more
        self.begun = 0  # how many attempts have begun
        self.stale_at = -math.inf  # when the line was last released because it waited too long
        self.filled = asyncio.Event()  # set when tasks come
        self._lock = threading.Lock()
        self._expected: set[int] = set()
        self._taken_away: set[int] = set()
        self._left: set[int] | None = None  # during a look: the leases of tasks that have left

    # Changes.

    def expect(self, lease: int) -> None:
        """A claim is sent under this lease."""
        with self._lock:
            self._expected.add(lease)

    def arrive(self, lease: int, tasks: Collection[Outcome]) -> bool:
        """The tasks of a claim are here. False: the heartbeat's thread has taken them."""
        with self._lock:
            if lease in self._taken_away:
                self._taken_away.discard(lease)
                return False
            self._held.update(tasks)
            self._expected.discard(lease)
        self.filled.set()
        return True

    def enter(self, tasks: Collection[Outcome]) -> None:
        """The worker holds these from now on."""
        self._held.update(tasks)
        self.filled.set()

    def expect_no_more(self, lease: int) -> None:
        """The claim has no answer. Tasks that it may have found are ghosts."""
        with self._lock:
            self._expected.discard(lease)
            self._taken_away.discard(lease)

    def move(self, held: Outcome, to: State) -> None:
        """Change the state of a task. No other function does."""
        if to not in MOVES[held.state]:
            raise AssertionError(f"task {held.task.id} is {held.state}: it cannot be {to}")
        held.state = to

    def line_up(self, attempts: Sequence[Attempt], *, first: bool = False) -> None:
        """Let these wait for a slot, at the end of the line or before all others."""
        for attempt in attempts:
            self.move(attempt, "waiting")
        if first:
            self.line.extendleft(reversed(attempts))
        else:
            self.line.extend(attempts)

    def take_line(self) -> list[Attempt]:
        """Take all that wait for a slot. Any thread may call this. The caller writes them, or lets them leave."""
        taken = []
        with suppress(IndexError):
            while True:  # ends: the line is empty
                taken.append(self.line.popleft())
        return taken

    def prepare(self, attempt: Attempt) -> None:
        """A slot takes this attempt, and waits for its mark `running`."""
        self.move(attempt, "starting")
        self.in_slots.add(attempt)

    def start(self, attempt: Attempt) -> None:
        """The handler starts now."""
        self.move(attempt, "running")
        self.in_slots.add(attempt)
        self.begun += 1
        attempt.begun_at = time.monotonic()

    def write(self, task: Outcome, end: End = RELEASED) -> None:
        """Put the outcome of a task into the outbox."""
        task.end = end
        task.ended_at = time.monotonic()
        if len(task.task.payload) > KEPT_CHARACTERS_MAX:
            task.task = task.task._replace(payload="")
        self.move(task, "writing")
        self._outbox.put(task)
        self.in_slots.discard(task)
        if len(self.line) <= self.low_water:
            self.freed()

    def leave(self, tasks: Collection[Outcome]) -> None:
        """The worker no longer holds these. Any thread may call this."""
        if (left := self._left) is not None:
            left.update(task.task.lease for task in tasks)
        self.in_slots.difference_update(tasks)
        self._held.difference_update(tasks)

    def take_claims(self) -> set[int]:
        """Take the claims on their way from the loop, which is blocked, and return their leases. The caller releases
        the tasks that they have found."""
        with self._lock:
            self._taken_away |= self._expected
            self._expected.clear()
            return self._taken_away.copy()

    # Questions. Any thread may ask.

    @property
    def free(self) -> int:
        """How many attempts may begin beside those in the line. Below zero: so many wait beyond the slots."""
        return self._slots - len(self.in_slots) - len(self.line)

    @property
    def is_empty(self) -> bool:
        """Whether the worker holds nothing."""
        return not self._held

    @property
    def at_work(self) -> int:
        """How many attempts run or wait for a slot."""
        return len(self.in_slots) + len(self.line)

    @property
    def expects_claims(self) -> bool:
        """Whether a claim is on its way."""
        return bool(self._expected)

    def held(self) -> list[Outcome]:
        """Return everything that this worker holds."""
        return list(self._held)

    def running(self) -> list[Attempt]:
        """Return the attempts whose handlers have started and may still end in their own way."""
        return [attempt for attempt in list(self.in_slots) if attempt.state in ("running", "ending")]

    def started(self) -> list[Attempt]:
        """Return all attempts whose handlers have started and not ended."""
        return [attempt for attempt in list(self.in_slots) if attempt.state != "starting"]

    def unmarked(self) -> list[Attempt]:
        """Return the attempts to mark `running` now: those that have not started, or have run for a while."""
        now = time.monotonic()
        return [attempt for attempt in list(self.in_slots) if is_unmarked(attempt, now)]

    @contextmanager
    def look(self) -> Iterator[list[Claimed]]:
        """Ask the database inside the block whether these leases hold. Then `ghosts` also knows what has left since the
        block began. Only the heartbeat's thread looks."""
        self._left = set()
        try:
            yield [task.task for task in self.held()]
        finally:
            self._left = None

    def ghosts(self, named: Iterable[Claimed]) -> list[Claimed]:
        """Return those of the tasks that the database holds in our name, during a look, which are none of ours."""
        # In this order: a lease is expected until its tasks are held, and a task is held until it has left.
        with self._lock:
            expected = self._expected | self._taken_away
        held = {(task.task.id, task.task.lease) for task in self.held()}
        known = expected | (self._left or set())
        return [task for task in named if task.lease not in known and (task.id, task.lease) not in held]


def is_unmarked(attempt: Attempt, now: float) -> bool:
    """Tell whether to mark an attempt `running` now."""
    if attempt.begun_at is None:
        return True
    return attempt.state != "abandoned" and now - attempt.begun_at > MARK_SECONDS and now >= attempt.mark_at
