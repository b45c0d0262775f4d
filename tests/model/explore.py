"""Walk through every state that a system can reach, breadth first, and report the shortest way to a wrong one.

This module knows nothing of queues. A system is one shared value and a few processes, each with a memory:

    state  =  shared · memory 0 · memory 1 · …
    step   =  (shared, memory i)  →  (shared', memory i'), and its effect on the other memories

This split makes the walk fast. The steps of a process depend only on the shared value and on its own memory. They are
computed once for each such pair, by code written for reading. Then they are looked up for the many states that differ
only in the other memories. Shared values and memories get a number when they first appear. A state is these numbers
side by side in one integer, and a step is an OR.

*The effect on other memories* is bookkeeping of the model, never a message. A memory may keep a number that is drawn
only once as one bit: "this is still the current one". The step that changes the current one clears the bit in all
memories. So the model counts no numbers, and a walk over unlimited draws ends.

*Two kinds of errors.* A step may be `broken`: it names the invariant that it breaks, and the walk stops. The walk is
breadth first, so there is no shorter way. Or a state may be stuck: no path without faults leads from it to the goal.
If every state of a finite system has such a path, every fair schedule ends at the goal.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.model.state_numbers import LOCAL, LOCAL_BITS, SHARED, SHARED_BITS, Elsewhere, Numbered

# How many states of a level are expanded in one piece.
PART = 50_000


class Step(NamedTuple):
    """One thing that may happen. A step with `fault` does not happen once faults have stopped."""

    name: str
    shared: Any
    local: Any = None
    others: Hashable = None
    fault: bool = False
    broken: str | None = None


class System(Protocol):
    """The system that a walk explores. Shared values and memories are hashable."""

    @property
    def goal(self) -> str:
        """The invariant that a stuck state breaks."""

    def start(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the shared value and the memories at the start."""

    def shared_steps(self, shared: Any) -> Iterable[Step]:
        """Yield the steps that need no process."""

    def local_steps(self, shared: Any, local: Any, who: int) -> Iterable[Step]:
        """Yield the steps that this process may take, and those that may happen to it."""

    def touched(self, local: Any, others: Any) -> Any:
        """Return a memory after a step of another process."""

    def is_goal(self, shared: Any) -> bool:
        """Return whether all work has ended."""


@dataclass(frozen=True, slots=True)
class Found:
    """The way to a broken invariant: the names of the steps. The last step breaks it."""

    invariant: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {name}" for number, name in enumerate(self.trace, 1))
        return f"broken: {self.invariant}\n{steps}"


@dataclass
class Walk:
    """What a walk saw. `situations` counts, for each step, the pairs of shared value and memory that have it."""

    states: int = 0
    edges: int = 0
    depth: int = 0
    seconds: float = 0.0
    finished: bool = False
    found: Found | None = None
    situations: Counter[str] = field(default_factory=Counter)


class Broken(Exception):
    """A step breaks an invariant. It ends the walk."""

    def __init__(self, state: int, step: Step) -> None:
        super().__init__(step.name)
        self.state = state
        self.step = step


class Targets(NamedTuple):
    """Where the steps of one pair lead. `every` has all of them and `calm` those without a fault, but neither has the
    steps that change other memories: these are in `touching`."""

    every: list[int]
    calm: list[int]
    touching: list[tuple[int, Elsewhere, bool]]


class Explorer:
    """One walk through one system."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._shared = Numbered(SHARED)
        self._local = Numbered(LOCAL)
        shared, memories = system.start()
        self._shifts = [SHARED_BITS + LOCAL_BITS * who for who in range(len(memories))]
        self._first = self._shared.number(shared)
        for shift, memory in zip(self._shifts, memories, strict=True):
            self._first |= self._local.number(memory) << shift
        # The part of a state that the steps of a place depend on. Place i is process i; the last place is the shared
        # value alone.
        self._masks = [*(SHARED | LOCAL << shift for shift in self._shifts), SHARED]
        self._memo: list[dict[int, Targets]] = [{} for _ in self._masks]
        self._elsewhere: dict[Hashable, Elsewhere] = {}
        # The states by the number of steps that lead to them.
        self._levels: list[list[int]] = [[self._first]]
        self._before: dict[int, list[int]] = {}
        self.walk = Walk()

    def run(self, *, states_max: int | None = None, to_the_goal: bool = False) -> Walk:
        """Walk until no state is new, an invariant breaks, or the limit is passed. Then look for stuck states."""
        began = time.process_time()
        collects = gc.isenabled()
        # There are no reference cycles here. To look for them among millions of objects takes a fifth of the time.
        gc.disable()
        try:
            self.walk.finished = self._wander(states_max, keep_calm=to_the_goal)
        except Broken as broken:
            trace = (*self._trace(broken.state), broken.step.name)
            self.walk.found = Found(broken.step.broken or "", trace)
        finally:
            if collects:
                gc.enable()
        self.walk.states = sum(map(len, self._levels))
        self.walk.depth = len(self._levels) - 1
        if to_the_goal and self.walk.finished:
            self._look_for_stuck()
        self.walk.seconds = time.process_time() - began
        return self.walk

    def _wander(self, states_max: int | None, *, keep_calm: bool) -> bool:
        seen = {self._first}
        while self._levels[-1]:
            found: list[int] = []
            self._levels.append(found)
            for part in parts(self._levels[-2]):
                new = set(self._reached(part, keep_calm=keep_calm)).difference(seen)
                seen |= new
                found += new
            if states_max is not None and len(seen) > states_max:
                return False
        self._levels.pop()
        return True

    def _reached(self, states: Sequence[int], *, keep_calm: bool) -> list[int]:
        """Return all states that one step leads to. This is the only hot loop, so it is flat."""
        places = list(enumerate(zip(self._masks, self._memo, strict=True)))
        reached: list[int] = []
        for state in states:
            for place, (mask, memo) in places:
                key = state & mask
                known = memo.get(key)
                if known is None:
                    known = memo[key] = self._targets(state, place)
                rest = state ^ key
                reached += map(rest.__or__, known.every)
                if known.touching:
                    reached += [others[rest] | target for target, others, _ in known.touching]
                if keep_calm:
                    self._keep_calm(state, rest, known)
        self.walk.edges += len(reached)
        return reached

    def _keep_calm(self, state: int, rest: int, known: Targets) -> None:
        """Note from which state each step without a fault came."""
        touching = (others[rest] | target for target, others, fault in known.touching if not fault)
        for there in (*(rest | target for target in known.calm), *touching):
            self._before.setdefault(there, []).append(state)

    def _targets(self, state: int, place: int) -> Targets:
        calm: dict[int, None] = {}
        faults: dict[int, None] = {}
        touching: list[tuple[int, Elsewhere, bool]] = []
        packed = self._packing(place)
        for step in self._steps(state, place):
            self.walk.situations[step.name] += 1
            if step.broken is not None:
                raise Broken(state, step)
            if step.others is not None:
                touching.append((packed(step), self._others(step.others), step.fault))
            else:
                (faults if step.fault else calm)[packed(step)] = None
        # A step that changes nothing leads to no other state.
        here = state & self._masks[place]
        every = [target for target in {**calm, **faults} if target != here]
        return Targets(every, [target for target in calm if target != here], touching)

    def _steps(self, state: int, place: int) -> Iterable[Step]:
        shared = self._shared.values[state & SHARED]
        if place == len(self._shifts):
            return self._system.shared_steps(shared)
        return self._system.local_steps(
            shared, self._local.values[state >> self._shifts[place] & LOCAL], place
        )

    def _packing(self, place: int) -> Callable[[Step], int]:
        if place == len(self._shifts):
            return lambda step: self._shared.number(step.shared)
        shift = self._shifts[place]
        return lambda step: self._shared.number(step.shared) | self._local.number(step.local) << shift

    def _others(self, others: Hashable) -> Elsewhere:
        if others not in self._elsewhere:
            self._elsewhere[others] = Elsewhere(self._system.touched, self._local, self._shifts, others)
        return self._elsewhere[others]

    def _trace(self, state: int) -> tuple[str, ...]:
        """Return the names of the steps of one shortest way, searched backwards level by level."""
        names: list[str] = []
        depth = next(depth for depth, level in enumerate(self._levels) if state in level)
        for level in reversed(self._levels[:depth]):
            before = next(before for before in level if state in self._reached([before], keep_calm=False))
            names.append(next(name for name, reached in self._named(before) if reached == state))
            state = before
        return tuple(reversed(names))

    def _named(self, state: int) -> Iterator[tuple[str, int]]:
        """Yield the name of every step out of a state, and the state that it leads to."""
        for place, mask in enumerate(self._masks):
            packed = self._packing(place)
            for step in self._steps(state, place):
                rest = state & ~mask
                if step.others is not None:
                    rest = self._others(step.others)[rest]
                yield step.name, rest | packed(step)

    def _look_for_stuck(self) -> None:
        hopeful = {
            state
            for level in self._levels
            for state in level
            if self._system.is_goal(self._shared.values[state & SHARED])
        }
        waiting = list(hopeful)
        # The loop ends because each state enters the list once.
        while waiting:
            for state in self._before.get(waiting.pop(), ()):
                if state not in hopeful:
                    hopeful.add(state)
                    waiting.append(state)
        stuck = next((state for level in self._levels for state in level if state not in hopeful), None)
        if stuck is not None:
            trace = (*self._trace(stuck), "from here, no path without a fault leads to the end")
            self.walk.found = Found(self._system.goal, trace)


def parts(level: list[int]) -> Iterator[list[int]]:
    """Cut a level into pieces, because all states that one piece leads to are in memory at once."""
    for start in range(0, len(level), PART):
        yield level[start : start + PART]
