"""The arena: a database that records every change, in which every schedule of a race runs, one after the other."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import psycopg
import pytest

from tests.clock import REPLACEMENT
from tests.invariants.moves import WATCH
from tests.races import setup_rows
from tests.races.invariants import faults, stuck
from tests.races.schedules import Choice, following
from tests.races.setup_rows import FinalRows
from tests.races.statements import load
from tests.races.stepping import Actor, Sessions, Step, Story

# The actor of the step that runs at the end of a schedule.
AFTERWARDS = Actor("afterwards", "leader", ())

# A schedule that does not begin as planned is tried so many times.
TRIES = 5


@dataclass(slots=True)
class Explored:
    """A race that ran in every order: the ends of its schedules, the number of schedules with each end, and which actor
    waited for which.

    An end consists of the answer to each step and the state of the tasks: `a.claim 1 2, operator.cancel -; 1 claimed, 2
    pending`."""

    outcomes: Counter[str] = field(default_factory=Counter)
    waits: set[str] = field(default_factory=set)
    waited: int = 0

    @property
    def schedules(self) -> int:
        return self.outcomes.total()

    def count(self, *words: str) -> int:
        """Return the number of schedules whose end contains all of these words."""
        return sum(n for end, n in self.outcomes.items() if all(word in end for word in words))

    def add(self, story: Story, left: FinalRows) -> None:
        self.outcomes["; ".join(filter(None, (story.as_text(), left.as_text())))] += 1
        self.waits |= story.waits()
        self.waited += bool(story.waits())


class Arena:
    """Runs races; each has initial rows and some actors."""

    def __init__(self, url: str, observer: psycopg.Connection) -> None:
        self._url = url
        self._observer = observer
        observer.execute(WATCH)
        observer.execute(setup_rows.WATCH)
        observer.execute("SELECT set_config('application_name', %s, false)", [AFTERWARDS.name])

    def build_gate(self) -> None:
        """Allow a race to stop `gated` actors where their statements read the clock."""
        self._observer.execute(setup_rows.GATE)

    def build_clock(self) -> None:
        """Stop the clock, except for `time_passes`."""
        self._observer.execute(REPLACEMENT.encode())

    def rebuild(self, function: str, part: str, instead: str) -> None:
        """Plant a fault in a function of the schema."""
        text = load(f"schema/functions/{function}.sql").decode()
        assert part in text, f"{function} does not hold {part}"
        self._observer.execute(text.replace(part, instead).encode())

    def explore(self, start: Sequence[str], *actors: Actor, afterwards: Step | None = None) -> Explored:
        """Run the race in every order. After each schedule all invariants must hold.

        `afterwards` runs at the end of a schedule: the next round of what runs regularly. Its result is checked, and
        nothing may be stuck then."""
        explored = Explored()
        reset = setup_rows.reset(tuple(start))
        self._observer.execute(reset)
        started_with = frozenset(task["id"] for task in setup_rows.read(self._observer).tasks)
        beginning: list[Choice] | None = []
        with closing(Sessions(self._url, self._observer, actors)) as sessions:
            while beginning is not None:
                for _ in range(TRIES):
                    self._observer.execute(reset)
                    story = sessions.play(beginning)
                    if afterwards:
                        self._come_by(afterwards, story)
                    left = setup_rows.read(self._observer)
                    wrong = faults(started_with, story, left) + (stuck(left) if afterwards else [])
                    assert [] == wrong, story.order()
                    if story.as_planned:
                        break
                explored.add(story, left)
                beginning = following(story.choices if story.as_planned else beginning)
        return explored

    def _come_by(self, step: Step, story: Story) -> None:
        assert not callable(step.params)
        story.actors[AFTERWARDS.name] = AFTERWARDS
        # Several statements at a time.
        psycopg.ClientCursor(self._observer).execute(step.query, step.params)


@pytest.fixture
def arena(database_url: str, connection: psycopg.Connection) -> Arena:
    """A new database for races."""
    return Arena(database_url, connection)
