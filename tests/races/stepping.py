"""Run real sessions step by step: which have finished, which wait for which, and which may act next.

The runner sends a step, and goes on when the answer arrives, or when PostgreSQL reports that the step waits for a lock
of another of these sessions (`pg_blocking_pids`). Then other actors take steps, and the waiting step gets its answer
when the lock is released. The runner never sleeps: it waits for an answer on its socket, and checks for a lock every
millisecond.

Steps that wait for each other are a deadlock. Then no actor can take a step until the server ends the deadlock, after
`deadlock_timeout`: 20 ms here, because thousands of schedules may contain one.
"""

import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from tests.patience import PATIENCE_SECONDS
from tests.races.schedules import Choice

Kind = Literal["worker", "leader", "operator"]
Row = tuple[Any, ...]

LOOK_SECONDS = 0.001

# The report of a schedule omits steps that end a transaction, use the gate or the clock, or only prepare the next step.
UNREPORTED = (
    "commit",
    "rollback",
    "shut",
    "open",
    "passes",
    "check leader",
    "remove leader",
    "own",
    "missing",
    "beacon",
    "release beacon",
    "snapshot",
)

# No lock_timeout, so that the runner can see each wait. A race may give its actor one. No jit: before PostgreSQL 18 it
# compiles for 100 ms a plan that the triggers of manual changes forbid, and that the planner must use all the same.
NO_LOCK_TIMEOUT = b"SET lock_timeout = 0; SET deadlock_timeout = '20ms'; SET jit = off"


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one step."""

    rows: tuple[Row, ...] = ()
    changed: int | None = None
    error: str | None = None
    waited_for: frozenset[str] = frozenset()
    column: int = 0

    @property
    def ids(self) -> tuple[Any, ...]:
        """The named column, mostly an id, sorted."""
        return tuple(sorted(row[self.column] for row in self.rows))

    def __str__(self) -> str:
        changed = f"changed {self.changed}" if self.changed and not self.rows else "-"
        return self.error or " ".join(map(str, self.ids)) or changed


Answers = Mapping[str, Answer]
Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One message to the server. `params` may depend on earlier answers to this session; None: send nothing.
    `column` is the part of the answer that is reported."""

    name: str
    query: bytes
    params: Params | Callable[[Answers], Params | None] = field(default_factory=dict)
    column: int = 0


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of these steps, in this order: a worker under its lease, a leader, or a manual change."""

    name: str
    kind: Kind
    steps: tuple[Step, ...]
    lease: int | None = None
    settings: bytes = b""
    gives_up: bool = False
    """It has a short lock_timeout: when it waits, the runner waits for its answer and takes no other step."""


@dataclass(slots=True)
class Story:
    """The events of one schedule: each choice, and the answer to each step of each actor."""

    actors: dict[str, Actor]
    choices: list[Choice] = field(default_factory=list)
    as_planned: bool = True
    """Whether it began as planned. It may not, if several sessions waited for one lock."""
    answers: dict[str, dict[str, Answer]] = field(default_factory=dict)

    def as_text(self) -> str:
        """Return the answer to each step, except steps that failed only because their transaction had failed."""
        return ", ".join(
            f"{name}.{step} {answer}"
            for name, answers in self.answers.items()
            for step, answer in answers.items()
            if not step.startswith(UNREPORTED) and answer.error != "25P02"
        )

    def waits(self) -> set[str]:
        """Return which step of which actor waited for which other actor."""
        return {
            f"{name} {step} for {other}"
            for name, answers in self.answers.items()
            for step, answer in answers.items()
            for other in answer.waited_for
        }

    def order(self) -> str:
        """The schedule as text: the actors in the order in which their steps were sent."""
        steps = {name: iter(actor.steps) for name, actor in self.actors.items()}
        return " → ".join(f"{choice.taken}.{next(steps[choice.taken]).name}" for choice in self.choices)


class Session:
    """One actor's connection, and its progress."""

    def __init__(self, url: str, actor: Actor) -> None:
        self.actor = actor
        assert len({step.name for step in actor.steps}) == len(actor.steps), "two steps of one name"
        self._connection = pq.PGconn.connect(url.encode())
        assert self._connection.status == pq.ConnStatus.OK, self._connection.error_message
        self.pid = self._connection.backend_pid
        self._poll = select.poll()
        self._poll.register(self._connection.socket, select.POLLIN)
        self._do(b"SET application_name = '%b'" % actor.name.encode())
        for settings in (actor.settings, b"" if actor.gives_up else NO_LOCK_TIMEOUT):
            self._do(settings)
        self.restart()

    def restart(self) -> None:
        """Begin a new schedule."""
        self.busy = False
        self.waits_for: frozenset[str] = frozenset()
        self.answers: dict[str, Answer] = {}
        self._next = 0
        self._waited_for: frozenset[str] = frozenset()

    def close(self) -> None:
        self._connection.finish()

    @property
    def ready(self) -> bool:
        """Whether it may take its next step."""
        return not self.busy and self._next < len(self.actor.steps)

    @property
    def in_transaction(self) -> bool:
        return self._connection.transaction_status != pq.TransactionStatus.IDLE

    def send(self, formatted: Callable[[Step, Answers], bytes | None]) -> None:
        """Send the next step that has something to do, and do not wait."""
        while self.ready:
            message = formatted(self.actor.steps[self._next], self.answers)
            self._next += 1
            if message is not None:
                self._connection.send_query(message)
                self._waited_for = frozenset()
                self.busy = True

    def listen(self, seconds: float) -> None:
        """Read the answer if it arrives within this time."""
        if self._poll.poll(seconds * 1000):
            self._connection.consume_input()
        if not self._connection.is_busy():
            self.busy, self.waits_for = False, frozenset()
            step = self.actor.steps[self._next - 1]
            self.answers[step.name] = self._answer(step)

    def wait_for(self, others: frozenset[str]) -> None:
        """Note the session for which it waits now."""
        self.waits_for = others
        self._waited_for |= others

    def _answer(self, step: Step) -> Answer:
        rows: tuple[Row, ...] = ()
        changed = error = None
        while result := self._connection.get_result():
            if result.status == pq.ExecStatus.FATAL_ERROR:
                rows, error = (), (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?").decode()
            elif result.status == pq.ExecStatus.TUPLES_OK:
                reader = Transformer()
                reader.set_pgresult(result)
                rows = tuple(reader.load_rows(0, result.ntuples, tuple))
            elif result.status == pq.ExecStatus.COMMAND_OK:
                changed = result.command_tuples
        return Answer(rows, changed, error, self._waited_for, step.column)

    def _do(self, query: bytes) -> None:
        result = self._connection.exec_(query)
        assert result.status != pq.ExecStatus.FATAL_ERROR, result.error_message


class Sessions:
    """All sessions of one race, and an observer of their waits."""

    def __init__(self, url: str, observer: psycopg.Connection, actors: Sequence[Actor]) -> None:
        self._observer = observer
        self._actors = {actor.name: actor for actor in actors}
        self._sessions = [Session(url, actor) for actor in actors]
        self._names = {session.pid: session.actor.name for session in self._sessions}
        self._writer = psycopg.ClientCursor(observer)
        self._formatted: dict[int, bytes] = {}

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def play(self, beginning: Sequence[Choice]) -> Story:
        """Run all steps, first in the given order, then as they become possible. Return the story."""
        story = Story(dict(self._actors))
        for session in self._sessions:
            session.restart()
        # Ends: each round takes a step.
        while available := {session.actor.name: session for session in self._sessions if session.ready}:
            name = next(iter(available))
            if story.as_planned and len(story.choices) < len(beginning):
                wanted = beginning[len(story.choices)].taken
                story.as_planned = wanted in available
                name = wanted if story.as_planned else name
            story.choices.append(Choice(name, tuple(available)))
            available[name].send(self._format)
            self._settle()
        story.answers = {session.actor.name: session.answers for session in self._sessions}
        left = [s.actor.name for s in self._sessions if s.busy or s.in_transaction]
        assert not left, f"{left} did not end: {story.order()}"
        return story

    def _format(self, step: Step, answers: Answers) -> bytes | None:
        if callable(step.params):
            params = step.params(answers)
            return None if params is None else self._mogrify(step.query, params)
        if id(step) not in self._formatted:
            self._formatted[id(step)] = self._mogrify(step.query, step.params)
        return self._formatted[id(step)]

    def _mogrify(self, query: bytes, params: Params) -> bytes:
        return self._writer.mogrify(query, params).encode() if params else query

    def _settle(self) -> None:
        """Return when every sent step has its answer, or waits for a session that does not go on by itself."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while busy := self._listen():
            for session, others in self._look(busy):
                session.wait_for(others)
            if all(session.waits_for for session in busy) and not any(self._will_move(s) for s in busy):
                return
            assert time.monotonic() < deadline, (
                f"neither answered nor waiting: {[s.actor.name for s in busy]}"
            )

    def _listen(self) -> list[Session]:
        for session in self._sessions:
            if session.busy:
                # A session that waited at the last check mostly still waits.
                session.listen(0 if session.waits_for else LOOK_SECONDS)
        return [session for session in self._sessions if session.busy]

    def _look(self, busy: Sequence[Session]) -> Iterator[tuple[Session, frozenset[str]]]:
        pids = [session.pid for session in busy]
        found = self._observer.execute(
            "SELECT pg_blocking_pids(pid) FROM unnest(%s::integer[]) WITH ORDINALITY AS p (pid, n) ORDER BY n",
            [pids],
        )
        for session, (blockers,) in zip(busy, found, strict=True):
            yield session, frozenset(self._names[pid] for pid in blockers if pid in self._names)

    def _will_move(self, session: Session) -> bool:
        """Return whether a waiting session will get its answer without another step."""
        return session.actor.gives_up or session.actor.name in self._behind(session)

    def _behind(self, session: Session) -> set[str]:
        """Return all sessions for which a session waits, directly or not; ends with the number of sessions."""
        waits = {s.actor.name: s.waits_for for s in self._sessions if s.busy}
        reached: set[str] = set()
        front = set(session.waits_for)
        while front:
            reached |= front
            front = {other for name in front for other in waits.get(name, ())} - reached
        return reached
