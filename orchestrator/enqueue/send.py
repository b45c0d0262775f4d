"""Send requests to a target, for threads and for coroutines, with the same statements and the same errors.

There is a statement for one task without a key, one for a set of tasks alike, and one for any other set. To repeat the
shared options for every item, and to answer whether each was created, would cost a third of the time of an item.
"""

import sys
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, NoReturn, overload

from orchestrator import events
from orchestrator.enqueue.request import Request
from orchestrator.enqueue.target import AsyncTarget, Target
from orchestrator.enqueue.target_psycopg import AsyncPsycopg, Rows
from orchestrator.enqueue.translate_error import Lost, translate_error
from orchestrator.postgres import statement

ONE = statement.load(__file__, "send.sql", "one")
ALIKE = statement.load(__file__, "send.sql", "alike")
MANY = statement.load(__file__, "send.sql", "many")

# Large enough that a round trip does not count. Small enough that a million items need little memory, and that a
# thousand of the largest payloads stay far below 268 MB, the limit of a jsonb array.
CHUNK_ITEMS = 1000
CHUNK_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A task that is in the database once the transaction commits. `created` is false if its key was taken: then
    the id is that of the task that has the key."""

    id: int
    created: bool


class Many(Sequence[Enqueued]):
    """An enqueued set, in order; it takes nine bytes for each item."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._created = bytearray()

    def extend(self, rows: Rows) -> None:
        """Add the answer of a statement: ids, and whether each was created (without that column, all were)."""
        columns = list(zip(*rows, strict=True))
        # The caller's connection may load numbers as another type.
        self._ids.extend(map(int, columns[0]))
        self._created.extend(map(bool, columns[1]) if columns[1:] else bytes([1]) * len(rows))

    def was_created(self, index: int) -> bool:
        """Tell whether a task is new."""
        return bool(self._created[index])

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


class Statement(NamedTuple):
    """A query and its parameters, for one request or for some of a set."""

    query: bytes
    parameters: dict[str, str | None]


def send(target: Target, request: Request) -> Enqueued:
    """Enqueue one task, in the target's transaction."""
    alone = target.commits_at_once()
    try:
        (row,) = target.rows(*single(request))
    except Exception as error:
        translate(error, Lost.IN_DOUBT, alone=alone)
    return enqueued(request, row)


async def asend(target: AsyncTarget, request: Request) -> Enqueued:
    """The same on the event loop."""
    if not isinstance(target, AsyncPsycopg):
        return await target.run(send, request)
    alone = target.commits_at_once()
    try:
        (row,) = await target.rows(*single(request))
    except Exception as error:
        translate(error, Lost.IN_DOUBT, alone=alone)
    return enqueued(request, row)


def send_many(target: Target, requests: Iterable[Request]) -> Many:
    """Enqueue a set, all or nothing, reading no further ahead than two chunks: one is written here while the one before
    is on its way."""
    many, way = Many(), way_of(requests, alone=target.commits_at_once())
    if way.in_one:
        for chunk in way.chunks:
            with translated(way.lost, alone=way.alone, first=0):
                take(many, chunk, target.rows(*together(chunk)))
        return many
    with edges(target.together(*NOTHING), alone=way.alone), target.ahead() as start:
        sent: list[tuple[list[Request], Callable[[], Rows]]] = []
        for chunk in chain(way.chunks, [[]]):
            statement = together(chunk) if chunk else None
            for before, answer in sent:
                with translated(way.lost, alone=way.alone, first=len(many)):
                    take(many, before, answer())
            with translated(way.lost, alone=way.alone, first=len(many)):
                sent = [(chunk, start(*statement))] if statement else []
    return many


async def asend_many(target: AsyncTarget, requests: Iterable[Request]) -> Many:
    """The same on the event loop."""
    if not isinstance(target, AsyncPsycopg):
        return await target.run(send_many, requests)
    many, way = Many(), way_of(requests, alone=target.commits_at_once())
    if way.in_one:
        for chunk in way.chunks:
            with translated(way.lost, alone=way.alone, first=0):
                take(many, chunk, await target.rows(*together(chunk)))
        return many
    async with aedges(target.together(*NOTHING), alone=way.alone), target.ahead() as start:
        sent: list[tuple[list[Request], Awaitable[Rows]]] = []
        for chunk in chain(way.chunks, [[]]):
            statement = together(chunk) if chunk else None
            for before, answer in sent:
                with translated(way.lost, alone=way.alone, first=len(many)):
                    take(many, before, await answer)
            with translated(way.lost, alone=way.alone, first=len(many)):
                sent = [(chunk, await start(*statement))] if statement else []
    return many


def enqueued(request: Request, row: Sequence[Any]) -> Enqueued:
    """Read the answer for one task."""
    made = Enqueued(int(row[0]), row[1:] != (False,))
    if made.created and events.wanted(events.TasksEnqueued):
        events.emit(events.TasksEnqueued(request[0].type, 1))
    return made


def take(many: Many, chunk: Sequence[Request], rows: Rows) -> None:
    """Take the answer for a chunk."""
    many.extend(rows)
    emit_enqueued(chunk, many)


def emit_enqueued(chunk: Sequence[Request], many: Many) -> None:
    """Emit how many tasks of each type the last chunk has created, if there is a subscriber."""
    if not events.wanted(events.TasksEnqueued):
        return
    first = len(many) - len(chunk)
    made = Counter(one.type for n, (one, _) in enumerate(chunk) if many.was_created(first + n))
    for kind, count in made.items():
        events.emit(events.TasksEnqueued(kind, count))


def single(request: Request) -> Statement:
    """Choose the statement for one task. Only with a key the answer must say whether it was created."""
    envelope, body = request
    if envelope.columns is None:
        return together([request])
    return Statement(ONE, {**envelope.columns, "payload": body})


def together(chunk: Sequence[Request]) -> Statement:
    """Choose the statement for some tasks. Tasks without keys that differ only in their payloads share the rest."""
    first = chunk[0][0]
    if not first.key and all(one is first or one == first for one, _ in chunk):
        bodies = ", ".join([body for _, body in chunk])
        return Statement(ALIKE, {"payloads": f"[{bodies}]", "alike": first.alike})
    items = ", ".join([envelope.around(body) for envelope, body in chunk])
    return Statement(MANY, {"tasks": f"[{items}]"})


# Begins a transaction and does nothing in it.
NOTHING = Statement(MANY, {"tasks": "[]"})


@dataclass(frozen=True, slots=True)
class Way:
    """How to send a set: in which chunks, whether in one statement, and what a broken connection means."""

    chunks: Iterable[list[Request]]
    alone: bool
    in_one: bool
    lost: Lost


def way_of(requests: Iterable[Request], *, alone: bool) -> Way:
    """Look at the first chunk. A small set in autocommit needs no transaction, an empty one no statement."""
    rest = chunks(requests)
    first = next(rest, [])
    in_one = not first or (alone and is_last(first))
    lost = Lost.IN_DOUBT if in_one else Lost.NOTHING_THERE
    return Way(chain([first] if first else [], rest), alone, in_one, lost)


def chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """Cut a set into pieces, by their number and their bytes."""
    chunk: list[Request] = []
    size = 0
    for request in requests:
        chunk.append(request)
        size += len(request[1]) + len(request[0].alike)
        if len(chunk) == CHUNK_ITEMS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def is_last(chunk: Sequence[Request]) -> bool:
    """Tell whether a chunk is surely the last one: it is not full."""
    return len(chunk) < CHUNK_ITEMS and sum(map(size_of, chunk)) < CHUNK_BYTES


def size_of(request: Request) -> int:
    return len(request[0].alike) + len(request[1])


@contextmanager
def edges(unit: Any, *, alone: bool) -> Iterator[None]:
    """Translate the errors of the beginning and the end of a transaction. Errors between them are translated
    already, or come from the caller's iterator and are not ours."""
    with translated(Lost.NOTHING_THERE, alone=alone):
        unit.__enter__()
    try:
        yield
    except BaseException:
        unit.__exit__(*sys.exc_info())
        raise
    with translated(Lost.IN_DOUBT, alone=alone):
        unit.__exit__(None, None, None)


@asynccontextmanager
async def aedges(unit: Any, *, alone: bool) -> AsyncIterator[None]:
    """The same on the event loop."""
    with translated(Lost.NOTHING_THERE, alone=alone):
        await unit.__aenter__()
    try:
        yield
    except BaseException:
        await unit.__aexit__(*sys.exc_info())
        raise
    with translated(Lost.IN_DOUBT, alone=alone):
        await unit.__aexit__(None, None, None)


@contextmanager
def translated(lost: Lost, *, alone: bool, first: int | None = None) -> Iterator[None]:
    """Raise the database's refusal as our exception. Raise any other error unchanged."""
    try:
        yield
    except Exception as error:
        translate(error, lost, alone=alone, first=first)


def translate(error: Exception, lost: Lost, *, alone: bool, first: int | None = None) -> NoReturn:
    """Raise the error that is being handled as our exception."""
    ours = translate_error(error, lost=lost if alone else Lost.THEIRS, first=first)
    if ours is error:
        raise error
    raise ours from error
