"""One call, and the run of its tasks with a worker's own functions: claimed, decoded, run, ended and read back."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from orchestrator import Context, Orchestrator, claim, finish, operate
from orchestrator.errors import OrchestratorError
from orchestrator.execute import Attempt, Executors, Registry
from orchestrator.execute.registry import handler_of
from orchestrator.operate import TaskState
from orchestrator.postgres.session import Connection
from orchestrator.task import payload
from orchestrator.task.backoff import Backoff
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Cancelled, Completed, DeadLettered, Failed, Outcome
from tests.fuzz.enqueue_ways import Doors, Edit, Way
from tests.fuzz.functions import FunctionCall
from tests.fuzz.refusals import by_name
from tests.stations.worker import Mate

RESULT_BYTES_MAX = 1_048_576
# Classes of SQLSTATE that no caller may get: internal errors, and errors in the project's own statements.
INTERNAL = ("XX", "42")
DECLARED = """
    INSERT INTO orchestrator.queues (name, priority, timeout, aging, state) VALUES
        ('post', 1, '3 s', '1 hour', 'active'), ('shut', NULL, NULL, '0', 'draining');
    INSERT INTO orchestrator.types (name, queue, priority) VALUES ('mail', 'post', 75);
"""
DUE = """
    UPDATE orchestrator.tasks SET run_at = orchestrator.clock() - interval '1 second'
    WHERE id = ANY (%s) AND status = 'scheduled'
"""
EDITED = "INSERT INTO orchestrator.tasks (type) VALUES ('mail') RETURNING id"
STORED = """
    SELECT id, queue, payload::text, metadata::text, tags FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id
"""


@dataclass(slots=True)
class Seen:
    """What the handler got, and what it must do: raise or return `does`. `beside`: its metadata and tags."""

    does: Any = None
    arguments: dict[str, Any] | None = None
    beside: tuple[Any, ...] = ()


@dataclass
class Shop:
    """A database with a producer, a worker and an operator. `operator` is the operator's session."""

    doors: Doors
    mate: Mate
    operator: psycopg.Connection
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.seen = Seen()
        self.executors = Executors(Registry(), size=1, result_bytes_max=RESULT_BYTES_MAX)

        async def anything(the_context_of_this: Context, **arguments: Any) -> Any:
            return handled(self.seen, the_context_of_this, arguments)

        self.handler = handler_of(
            anything, name="anything", queue="default", priority=None, max_attempts=None, timeout_seconds=None,
            backoff=Backoff(),
        )  # fmt: skip

    def live(self, way: Way, does: Any) -> None:
        """Enqueue. An accepted task must come back equal, run, and end as intended."""
        try:
            ids = way.enqueue(self.doors)
        except Exception as error:
            self.tally[f"{way.name} refused: {name_of(error)}"] += 1
            return
        finally:
            if self.doors.session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.doors.session.rollback()
        ids = list(dict.fromkeys(ids))
        self.tally[f"{way.name} enqueued"] += 1
        with self.cleared(ids):
            self.lived(ids, way, does)

    def lived(self, ids: list[int], way: Way, does: Any) -> None:
        self.operator.execute(DUE, [ids])
        stored = {row[0]: row for row in self.operator.execute(STORED, [ids]).fetchall()}
        assert set(ids) == stored.keys()
        if way.sent is not None and len(way.sent) == len(ids):
            for task_id, sent in zip(ids, way.sent, strict=True):
                assert alike(sent, payload.decode(stored[task_id][2])), "not what was sent"
        tasks = self.mate.call(lambda connection: self.claimed(connection, stored))
        assert sorted(ids) == sorted(task.id for task in tasks), "not claimed"
        for task in tasks:
            self.run(task, stored[task.id], does)

    def edit(self, edit: Edit, does: Any) -> None:
        """Let the table's owner write any value into a task. A worker must still be able to claim and end it."""
        (task_id,) = self.operator.execute(EDITED.encode()).fetchone() or (0,)
        with self.cleared([task_id]):
            self.edited(task_id, edit, does)

    def edited(self, task_id: int, edit: Edit, does: Any) -> None:
        try:
            edit.write(self.operator, task_id)
            self.tally["edits accepted"] += 1
        except (psycopg.Error, UnicodeEncodeError) as error:
            if str(getattr(error, "sqlstate", "")).startswith(INTERNAL):
                raise
            self.tally["edits refused"] += 1
        self.operator.execute(DUE, [[task_id]])
        rows = {row[0]: row for row in self.operator.execute(STORED, [[task_id]]).fetchall()}
        (task,) = self.mate.call(lambda connection: self.claimed(connection, rows))
        self.seen.does = does
        outcome = self.mate.call(lambda connection: self.ended(connection, task))
        self.tally[f"ended: {type(outcome.end).__name__.lower()}"] += 1
        with suppress(OrchestratorError):
            assert operate.current(self.operator, task_id) is not None

    @contextmanager
    def cleared(self, ids: list[int]) -> Iterator[None]:
        """Delete the tasks of a call, also after a failure, so that the next call does not claim them."""
        try:
            yield
        finally:
            self.operator.execute("DELETE FROM orchestrator.tasks WHERE id = ANY (%s)", [ids])

    def call(self, call: FunctionCall) -> None:
        """Call a function in a transaction that is rolled back."""
        try:
            with self.operator.transaction(force_rollback=True):
                call.within(self.operator)
            self.tally["functions answered"] += 1
        except Exception as error:
            self.tally[f"functions refused: {name_of(error)}"] += 1

    async def claimed(self, connection: Connection, stored: dict[int, tuple[Any, ...]]) -> list[Claimed]:
        queues = sorted({row[1] for row in stored.values()})
        answer = await claim.batch(
            connection, lease=claim.new_lease(), worker_id=self.mate.id, queues=queues, batch_size=100
        )
        return await answer.tasks()

    def run(self, task: Claimed, stored: tuple[Any, ...], does: Any) -> None:
        """Run one attempt, end it, and compare the stored end with the intended one."""
        self.seen.does, self.seen.arguments = does, None
        outcome = self.mate.call(lambda connection: self.ended(connection, task))
        end = outcome.end
        if self.seen.arguments is None:
            # The only argument name that the handler above uses itself.
            assert "the_context_of_this" in task.payload, f"not run, but {end}"
            return
        assert alike(payload.decode(stored[2]), self.seen.arguments)
        assert (payload.decode(stored[3] or "{}"), tuple(stored[4] or ())) == self.seen.beside
        state = operate.current(self.operator, task.id)
        assert state is not None
        self.tally[f"ended: {type(end).__name__.lower()}"] += 1
        agrees(end, does, state)

    async def ended(self, connection: Connection, task: Claimed) -> Outcome:
        attempt = Attempt(task, begun_at=time.monotonic(), handler=self.handler, executors=self.executors)
        attempt.end = await attempt.run()
        written = await finish.record(connection, [attempt], worker_id=self.mate.id)
        assert set() == written.refused, "stale"
        return attempt


def name_of(error: Exception) -> str:
    """Return the name of a refusal; an error without a name fails the test."""
    name = by_name(error)
    assert name is not None, f"not refused by name, but {type(error).__name__}: {error}"
    return name


def handled(seen: Seen, context: Context, arguments: dict[str, Any]) -> Any:
    """Act as the handler: note the arguments, metadata and tags, then raise or return `does`."""
    seen.arguments = arguments
    seen.beside = (context.metadata, context.tags)
    if isinstance(seen.does, BaseException):
        raise seen.does
    return seen.does


def agrees(end: Any, does: Any, state: TaskState) -> None:
    """Compare the state of a task, as an operator reads it, with the end of its attempt."""
    match end:
        case Completed():
            assert ("completed", True) == (state.status, alike(does, state.result))
        case Failed(fault) | DeadLettered(fault):
            assert fault == state.error
            assert state.status in ("scheduled", "pending", "dead_letter")
        case Cancelled(reason):
            assert ("cancelled", reason) == (state.status, state.cancelled_because)
        case _:
            assert state.status in ("scheduled", "pending")


def alike(left: Any, right: Any) -> bool:
    """Return whether two values and their types are equal. A tuple comes back as a list, and bytes as text."""
    match left, right:
        case (dict(), dict()):
            return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
        case (list() | tuple(), list()):
            return len(left) == len(right) and all(map(alike, left, right))
        case (bytes() | memoryview(), str()):
            return True  # base64, which tests/task checks
        case (float(), float()):
            return left == right and not math.isnan(left)
        case _:
            return type(left) is type(right) and bool(left == right)


@contextmanager
def opened(url: str) -> Iterator[Shop]:
    """Open the shop on an empty database."""
    with (
        psycopg.connect(url, autocommit=True) as operator,
        psycopg.connect(url, autocommit=True) as session,
        closing(Orchestrator(url)) as app,
        closing(Mate(url)) as mate,
    ):
        operator.execute(DECLARED.encode())
        session.execute("SET ROLE orchestrator_producer")
        yield Shop(Doors(app, session), mate, operator)
