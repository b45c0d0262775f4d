"""The front door for Python code: declare tasks, enqueue them, run a worker.

app = Orchestrator("postgresql://…")

@app.task(queue="mail")
async def welcome(user_id: int) -> None: ...

welcome.enqueue(user_id=1)
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, overload

import psycopg
from psycopg_pool import PoolTimeout

from orchestrator import enqueue
from orchestrator.config import Config
from orchestrator.enqueue import Enqueued, Options
from orchestrator.enqueue.request import Priority, Request, priority_number, seconds
from orchestrator.errors import ConfigError, DatabaseUnavailable, EnqueueRefused
from orchestrator.execute import Handler, Registry
from orchestrator.execute.registry import handler_of
from orchestrator.postgres import connect
from orchestrator.postgres.pools import Pools
from orchestrator.task.backoff import Backoff
from orchestrator.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
Target = (
    psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]
)


class Orchestrator:
    """An application's tasks and the database they live in. Connects to nothing before it must."""

    def __init__(self, url: str | None = None, /, **settings: Any) -> None:
        self._settings = settings if url is None else {**settings, "database_url": url}
        self._config: Config | None = None
        self._pools: Pools | None = None
        self.registry = Registry()

    @property
    def config(self) -> Config:
        """The settings, read when first asked for: a module that declares tasks imports without a database."""
        if self._config is None:
            self._config = Config.load(**self._settings)
        return self._config

    @property
    def pools(self) -> Pools:
        """The connections used where none is handed in."""
        if self._pools is None:
            self._pools = Pools(self.config)
        return self._pools

    @overload
    def task(self, function: Callable[P, R], /) -> "TaskFunction[P, R]": ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: Priority | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | float | None = None,
        backoff: Backoff | None = None,
    ) -> "Callable[[Callable[P, R]], TaskFunction[P, R]]": ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: Priority | None = None,
        max_attempts: int | None = None,
        timeout: timedelta | float | None = None,
        backoff: Backoff | None = None,
    ) -> Any:
        """Declare a function as a task. The name defaults to `module.function`; it is what the database holds."""

        def declare(function: Callable[P, R]) -> TaskFunction[P, R]:
            try:
                handler = handler_of(
                    function,
                    name=name,
                    queue=queue,
                    priority=None if priority is None else priority_number(priority),
                    max_attempts=max_attempts,
                    timeout_seconds=None if timeout is None else seconds("timeout", timeout),
                    backoff=backoff or Backoff(),
                )
            except EnqueueRefused as error:
                raise ConfigError(f"{function.__qualname__}: {error}") from None
            self.registry.add(handler)
            return TaskFunction(self, handler, function)

        return declare if function is None else declare(function)

    def run_worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
    ) -> None:
        """Run a worker in this process until it is stopped; installs no signal handlers."""
        asyncio.run(self.arun_worker(queues=queues, concurrency=concurrency, until_empty=until_empty))

    async def arun_worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
    ) -> None:
        """Run a worker on this loop; when cancelled, it stops cleanly first."""
        await self.worker(queues=queues, concurrency=concurrency, until_empty=until_empty).run()

    def worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
        **settings: Any,
    ) -> Worker:
        """Make a worker without starting it; its own settings beat the application's."""
        given = {"queues": queues, "concurrency": concurrency, **settings}
        own = {name: value for name, value in given.items() if value is not None}
        config = Config.load(**{**self._settings, **own})
        return Worker(config, self.registry, until_empty=until_empty)

    def close(self) -> None:
        """Close the connections opened for threads."""
        if self._pools is not None:
            self._pools.close()

    async def aclose(self) -> None:
        """Close the connections opened on this loop."""
        if self._pools is not None:
            await self._pools.aclose()


@dataclasses.dataclass(frozen=True)
class Sender:
    """Where and how a task is to be enqueued. Immutable: `using` makes another."""

    app: Orchestrator
    handler: Handler
    options: Options
    target: Target | None = None

    def enqueue(self, *args: Any, **arguments: Any) -> Enqueued:
        """Enqueue; on the connection handed to `using`, in its transaction, or on one of our own."""
        requests = [self._request(args, arguments)]
        match connection_of(self.target):
            case psycopg.Connection() as connection:
                (enqueued,) = enqueue.send(connection, requests)
            case psycopg.AsyncConnection():
                raise TypeError("this connection is asynchronous; use aenqueue")
            case None:
                pool = self.app.pools.sync()
                try:
                    with pool.connection() as connection:
                        (enqueued,) = enqueue.send(connection, requests)
                except PoolTimeout as error:
                    raise no_connection(self.app.config) from error
        return enqueued

    async def aenqueue(self, *args: Any, **arguments: Any) -> Enqueued:
        """The same on the event loop."""
        requests = [self._request(args, arguments)]
        match connection_of(self.target):
            case psycopg.AsyncConnection() as connection:
                (enqueued,) = await enqueue.asend(connection, requests)
            case psycopg.Connection():
                raise TypeError("this connection is synchronous and would block the event loop; use enqueue")
            case None:
                pool = await self.app.pools.on_loop()
                try:
                    async with pool.connection() as connection:
                        (enqueued,) = await enqueue.asend(connection, requests)
                except PoolTimeout as error:
                    raise no_connection(self.app.config) from error
        return enqueued

    def _request(self, args: tuple[Any, ...], arguments: dict[str, Any]) -> Request:
        if args:
            raise TypeError(f"{self.handler.type}: a task's arguments are keyword arguments; name them")
        self.handler.check(arguments)
        return enqueue.request(
            self.handler.type, arguments, self.options, bytes_max=self.app.config.payload_bytes_max
        )


class TaskFunction(Generic[P, R]):
    """A declared task: still the function it was, and the way to enqueue it."""

    def __init__(self, app: Orchestrator, handler: Handler, function: Callable[P, R]) -> None:
        self._app = app
        self._function = function
        self.handler = handler
        self.name = handler.type
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, /, *args: P.args, **arguments: P.kwargs) -> R:
        """Call the function, here and now."""
        return self._function(*args, **arguments)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def enqueue(self, *args: Any, **arguments: Any) -> Enqueued:
        """Enqueue with these arguments, on a connection of our own, committed at once."""
        return self.using().enqueue(*args, **arguments)

    async def aenqueue(self, *args: Any, **arguments: Any) -> Enqueued:
        """The same on the event loop."""
        return await self.using().aenqueue(*args, **arguments)

    def using(self, target: Target | None = None, /, **options: Any) -> Sender:
        """Say on which connection, and how: queue, priority, run_at, delay, key, key_window, max_attempts,
        timeout, tags, metadata."""
        connection_of(target)
        try:
            return Sender(self._app, self.handler, defaulted(Options(**options), self.handler), target)
        except TypeError:
            known = ", ".join(field.name for field in dataclasses.fields(Options))
            unknown = ", ".join(sorted(set(options) - {field.name for field in dataclasses.fields(Options)}))
            raise TypeError(f"using() knows no option {unknown}; known are {known}") from None


def defaulted(options: Options, handler: Handler) -> Options:
    """Let the decorator's word hold also where no worker has declared the type to the database yet."""
    return dataclasses.replace(
        options,
        queue=handler.queue if options.queue is None else options.queue,
        priority=handler.priority if options.priority is None else options.priority,
        max_attempts=handler.max_attempts if options.max_attempts is None else options.max_attempts,
        timeout=handler.timeout_seconds if options.timeout is None else options.timeout,
    )


def connection_of(target: Target | None) -> psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | None:
    """Return the psycopg connection under what somebody holds."""
    match target:
        case None | psycopg.Connection() | psycopg.AsyncConnection():
            return target
        case psycopg.Cursor() | psycopg.AsyncCursor():
            return target.connection
        case _:
            raise TypeError(f"using() takes a psycopg connection or cursor, not {type(target).__name__}")


def no_connection(config: Config) -> DatabaseUnavailable:
    where = connect.describe(connect.conninfo(config.database_url))
    return DatabaseUnavailable(
        f"no connection to {where} became free within {config.pool_timeout_seconds:g} s: the database is away, or "
        f"more than pool_size ({config.pool_size}) enqueue at once; raise ORCHESTRATOR_POOL_SIZE then"
    )
