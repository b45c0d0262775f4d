"""Send requests to a target, in two colours with one statement and one reading of errors."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

from orchestrator.enqueue.request import Request, as_array
from orchestrator.enqueue.target import AsyncTarget, Target
from orchestrator.enqueue.told import told
from orchestrator.postgres import statement

ENQUEUE = statement.load(__file__, "enqueue.sql")

# Enough that a round trip is nothing beside it, little enough that a million items need no memory.
CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A task that is in the database once the transaction commits. `created` is false when its key was taken:
    then the id is that of the task which has it."""

    id: int
    created: bool


class Many(Sequence[Enqueued]):
    """A set that was enqueued, in order; nine bytes an item, however many."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._created = bytearray()

    def extend(self, rows: Iterable[tuple[int, bool]]) -> None:
        for task_id, created in rows:
            self._ids.append(task_id)
            self._created.append(created)

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Enqueued: ...

    @overload
    def __getitem__(self, index: slice) -> list[Enqueued]: ...

    def __getitem__(self, index: int | slice) -> Enqueued | list[Enqueued]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        return Enqueued(self._ids[index], bool(self._created[index]))


def send(target: Target, request: Request) -> Enqueued:
    """Enqueue one task, in the transaction the target is in."""
    with translated(in_doubt=target.commits_at_once()):
        (row,) = target.rows(ENQUEUE, given([request]))
    return Enqueued(*row)


async def asend(target: AsyncTarget, request: Request) -> Enqueued:
    """The same on the event loop."""
    with translated(in_doubt=target.commits_at_once()):
        (row,) = await target.rows(ENQUEUE, given([request]))
    return Enqueued(*row)


def send_many(target: Target, requests: Iterable[Request]) -> Many:
    """Enqueue a set, all or nothing, reading no further ahead than one chunk."""
    many = Many()
    with translated(in_doubt=target.commits_at_once(), many=many), target.together(ENQUEUE, given([])):
        for chunk in chunks(requests):
            many.extend(target.rows(ENQUEUE, given(chunk)))
    return many


async def asend_many(target: AsyncTarget, requests: Iterable[Request]) -> Many:
    """The same on the event loop."""
    many = Many()
    with translated(in_doubt=target.commits_at_once(), many=many):
        async with target.together(ENQUEUE, given([])):
            for chunk in chunks(requests):
                many.extend(await target.rows(ENQUEUE, given(chunk)))
    return many


@contextmanager
def translated(*, in_doubt: bool, many: Many | None = None) -> Iterator[None]:
    """Raise the database's refusal in our words. What is no refusal of the database is raised as it came."""
    try:
        yield
    except Exception as error:
        said = told(error, in_doubt=in_doubt, first=None if many is None else len(many))
        if said is error:
            raise
        raise said from error


def given(requests: Sequence[Request]) -> dict[str, Any]:
    return {"tasks": as_array(requests)}


def chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    rest = iter(requests)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
