"""A declared task: it can be called like the function, and enqueued."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from orchestrator import enqueue
from orchestrator.app.handle import Handle, Handles
from orchestrator.app.producer import Producer
from orchestrator.config import did_you_mean
from orchestrator.enqueue import Envelope, Options, Request
from orchestrator.errors import EnqueueRefused, PayloadRefused
from orchestrator.execute import Handler
from orchestrator.task.duration import shown

P = ParamSpec("P")
R = TypeVar("R")
OPTIONS = {field.name: field for field in dataclasses.fields(Options)}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A task and its arguments, not enqueued yet: an item of `enqueue_many`."""

    kind: str
    arguments: Mapping[str, Any]
    options: Options

    def request(self, *, bytes_max: int) -> Request:
        """Check the call and return it as a request."""
        return enqueue.request(self.kind, self.arguments, self.options, bytes_max=bytes_max)


class Sender:
    """A task, its options, and the connection to use. Nothing happens before `enqueue`."""

    __slots__ = ("_envelope", "_origin", "handler", "held", "options", "producer")

    def __init__(
        self,
        producer: Producer,
        handler: Handler,
        options: Options,
        held: object = None,
        *,
        origin: "Sender | None" = None,
    ) -> None:
        self.producer = producer
        self.handler = handler
        self.options = options
        self.held = held
        self._origin = origin  # a lasting sender with the same options, whose envelope can be used again
        self._envelope: Envelope | None = None

    @property
    def has_options(self) -> bool:
        """Whether the caller gave options besides those of the declaration."""
        return self._origin is None

    def enqueue(self, /, *args: Any, **arguments: Any) -> Handle:
        """Enqueue on the connection that was given to `using`, in its transaction, or else on a pooled connection,
        committed at once."""
        return Handle.of(self.producer.send(self._request(args, arguments), self.held), self.producer)

    async def aenqueue(self, /, *args: Any, **arguments: Any) -> Handle:
        """The same on the event loop."""
        return Handle.of(await self.producer.asend(self._request(args, arguments), self.held), self.producer)

    def enqueue_many(self, items: Iterable[Mapping[str, Any] | Call]) -> Handles:
        """Enqueue a set, all or nothing. Items are mappings of arguments, or calls. It reads at most two thousand items
        ahead."""
        return Handles(self.producer.send_many(self._requests(items), self.held), self.producer)

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any] | Call]) -> Handles:
        """The same on the event loop."""
        return Handles(await self.producer.asend_many(self._requests(items), self.held), self.producer)

    def call(self, /, *args: Any, **arguments: Any) -> Call:
        """Name the arguments now, for `enqueue_many`."""
        self._check(args, arguments)
        return Call(self.handler.type, arguments, self.options)

    def envelope(self) -> Envelope:
        """Return the options as they are sent. They are written once if they cannot change."""
        if self._envelope is not None:
            return self._envelope
        if self._origin is not None:
            written = self._origin.envelope()
        else:
            bytes_max = self.producer.config.payload_bytes_max
            written = enqueue.envelope(self.handler.type, self.options, bytes_max=bytes_max)
        if enqueue.stays(self.options):
            self._envelope = written
        return written

    def _check(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> None:
        if args:
            raise TypeError(f"{self.handler.type}: a task's arguments are keyword arguments; name them")
        self.handler.check(arguments)

    def _request(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> Request:
        self._check(args, arguments)
        body = enqueue.written(arguments, bytes_max=self.producer.config.payload_bytes_max)
        return self.envelope(), body

    def _requests(self, items: Iterable[Mapping[str, Any] | Call]) -> Iterator[Request]:
        bytes_max = self.producer.config.payload_bytes_max
        for n, item in enumerate(items):
            if not isinstance(item, Call):
                self._check_item(n, item)
            try:
                if isinstance(item, Call):
                    request = item.request(bytes_max=bytes_max)
                else:
                    body = enqueue.written(item, bytes_max=bytes_max)
                    request = self._envelope or self.envelope(), body
            except EnqueueRefused as error:
                raise at(n, error) from error.__cause__
            yield request

    def _check_item(self, n: int, item: Mapping[str, Any]) -> None:
        if type(item) is not dict and not isinstance(item, Mapping):
            raise TypeError(
                f"items[{n}] is of type {type(item).__name__}; it must be a mapping of arguments, or a call"
            )
        try:
            self.handler.check(item)
        except TypeError as error:
            raise TypeError(f"items[{n}]: {error}") from None


class TaskFunction(Generic[P, R]):
    """A declared task: it can be called like the function, and enqueued."""

    def __init__(self, producer: Producer, handler: Handler, function: Callable[P, R]) -> None:
        self._producer = producer
        self._function = function
        self._sender = Sender(producer, handler, defaulted(Options(), handler))
        self.handler = handler
        self.name = handler.type
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, /, *args: P.args, **arguments: P.kwargs) -> R:
        """Call the function in this process, without enqueueing."""
        return self._function(*args, **arguments)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def enqueue(self, /, *args: Any, **arguments: Any) -> Handle:
        """Enqueue with these arguments, on a pooled connection, committed at once."""
        return self._sender.enqueue(*args, **arguments)

    async def aenqueue(self, /, *args: Any, **arguments: Any) -> Handle:
        """The same on the event loop."""
        return await self._sender.aenqueue(*args, **arguments)

    def enqueue_many(self, items: Iterable[Mapping[str, Any] | Call]) -> Handles:
        """Enqueue a set on a pooled connection, all or nothing."""
        return self._sender.enqueue_many(items)

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any] | Call]) -> Handles:
        """The same on the event loop."""
        return await self._sender.aenqueue_many(items)

    def call(self, /, *args: Any, **arguments: Any) -> Call:
        """Name the arguments now, for `enqueue_many`."""
        return self._sender.call(*args, **arguments)

    def using(self, held: object = None, /, **options: Any) -> Sender:
        """Choose the connection and the options to enqueue with.

        `held` is a psycopg connection or cursor, a SQLAlchemy session or connection, or a Django alias. Options are
        queue, priority, run_at, delay, key, key_window, max_attempts, timeout, tags, metadata, trace_context.
        """
        if held is not None:
            enqueue.target_of(held)
        if options:
            return Sender(self._producer, self.handler, defaulted(options_of(options), self.handler), held)
        plain = self._sender
        return Sender(self._producer, self.handler, plain.options, held, origin=plain)


def options_of(given: Mapping[str, Any]) -> Options:
    """Read options by name. Refuse an unknown name."""
    for name in given:
        if name not in OPTIONS:
            close = did_you_mean(name[:200], OPTIONS)
            raise TypeError(
                f"there is no option {name if name.isprintable() and len(name) <= 64 else shown(name)}; "
                + (f"did you mean {close}?" if close else f"the options are {', '.join(OPTIONS)}")
            )
    return Options(**given)


def defaulted(options: Options, handler: Handler) -> Options:
    """Add the decorator's options: they hold also while no worker has declared the type to the database yet."""
    return dataclasses.replace(
        options,
        queue=handler.queue if options.queue is None else options.queue,
        priority=handler.priority if options.priority is None else options.priority,
        max_attempts=handler.max_attempts if options.max_attempts is None else options.max_attempts,
        timeout=handler.timeout_seconds if options.timeout is None else options.timeout,
    )


def requests_of(calls: Iterable[Call], *, bytes_max: int) -> Iterator[Request]:
    """Make requests of calls, one by one. A refusal names the item."""
    for n, call in enumerate(calls):
        if not isinstance(call, Call):
            raise TypeError(
                f"items[{n}] is of type {type(call).__name__}; make it a call, as task.call(…) does"
            )
        try:
            request = call.request(bytes_max=bytes_max)
        except EnqueueRefused as error:
            raise at(n, error) from error.__cause__
        yield request


def at(n: int, error: EnqueueRefused) -> EnqueueRefused:
    """Return the error with the number of the refused item."""
    if isinstance(error, PayloadRefused):
        return PayloadRefused(f"items[{n}].{error.path}", error.reason, item=n)
    return EnqueueRefused(f"items[{n}]: {error}", item=n)
