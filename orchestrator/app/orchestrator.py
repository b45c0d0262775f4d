"""One application: its tasks, and the database that holds them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, ParamSpec, TypeVar, overload

from orchestrator.app.handle import Handle, Handles
from orchestrator.app.producer import Producer
from orchestrator.app.subscriptions import Subscriptions, checked
from orchestrator.app.task import Call, TaskFunction, defaulted, options_of, requests_of
from orchestrator.config import Config
from orchestrator.enqueue.request import Priority, integer, queue_name, seconds
from orchestrator.errors import ConfigError, EnqueueRefused
from orchestrator.events import Event
from orchestrator.execute import Registry
from orchestrator.execute.registry import handler_of
from orchestrator.processes import loop
from orchestrator.task.backoff import Backoff
from orchestrator.task.duration import Duration, shown
from orchestrator.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
# The largest bigint.
ID_MAX = 2**63 - 1
S = TypeVar("S", bound=Callable[..., object])


class Orchestrator:
    """An application's tasks and the database that holds them. It connects on first use."""

    def __init__(self, url: str | None = None, /, **settings: Any) -> None:
        self._settings = settings if url is None else {**settings, "database_url": url}
        self._producer = Producer(self._read_config)
        self._subscriptions = Subscriptions()
        self.registry = Registry()

    @property
    def config(self) -> Config:
        """The settings, read on first use."""
        return self._producer.config

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
        timeout: Duration | None = None,
        backoff: Backoff | None = None,
        executor: Literal["thread", "process"] | None = None,
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
        timeout: Duration | None = None,
        backoff: Backoff | None = None,
        executor: Literal["thread", "process"] | None = None,
    ) -> Any:
        """Declare a function as a task. The database holds the name, which defaults to `module.function`.

        An `async def` runs on the event loop, a `def` in a thread. With executor="process" a `def` runs in a child
        process. The worker kills that process at the timeout, and survives its crash.
        """

        def declare(function: Callable[P, R]) -> TaskFunction[P, R]:
            if not callable(function) or not hasattr(function, "__qualname__"):
                raise ConfigError(f"a task is a def or an async def, not {shown(function)}")
            try:
                handler = handler_of(
                    function,
                    name=name,
                    queue=queue_name(queue),
                    priority=None if priority is None else integer("priority", priority),
                    max_attempts=None if max_attempts is None else integer("max_attempts", max_attempts),
                    timeout_seconds=None if timeout is None else seconds("timeout", timeout),
                    backoff=Backoff() if backoff is None else backoff,
                    executor=executor,
                )
            except EnqueueRefused as error:
                raise ConfigError(f"{function.__qualname__}: {error}") from None
            self.registry.add(handler)
            return TaskFunction(self._producer, handler, function)

        return declare if function is None else declare(function)

    @overload
    def on(self, *kinds: type[Event]) -> Callable[[S], S]: ...

    @overload
    def on(self, *kinds: type[Event], call: S) -> S: ...

    def on(self, *kinds: type[Event], call: Any = None) -> Any:
        """Call a function for each event of these kinds (`orchestrator.events`) that happens in this process.

        Use it as a decorator, or as on(TaskFailed, call=function). The function runs on its own thread, after the
        event: it may be slow, and may raise. If events come faster than it handles them, it misses some. Event stands
        for all kinds.
        """
        wanted = checked(kinds)

        def add(subscriber: S) -> S:
            self._subscriptions.add(subscriber, wanted)
            return subscriber

        return add if call is None else add(call)

    def off(self, subscriber: Callable[..., object]) -> None:
        """Stop calling a function that was given to `on`."""
        self._subscriptions.remove(subscriber)

    def enqueue(
        self, name: str, arguments: Mapping[str, Any], *, using: object = None, **options: Any
    ) -> Handle:
        """Enqueue a task by its name. Its handler may be in another program."""
        request = self.call(name, arguments, **options).request(bytes_max=self.config.payload_bytes_max)
        return Handle.of(self._producer.send(request, using), self._producer)

    async def aenqueue(
        self, name: str, arguments: Mapping[str, Any], *, using: object = None, **options: Any
    ) -> Handle:
        """The same on the event loop."""
        request = self.call(name, arguments, **options).request(bytes_max=self.config.payload_bytes_max)
        return Handle.of(await self._producer.asend(request, using), self._producer)

    def call(self, name: str, arguments: Mapping[str, Any], **options: Any) -> Call:
        """Name a task and its arguments now, for `enqueue_many`. The arguments of a task declared here are checked."""
        given, handler = options_of(options), self.registry.find(name) if isinstance(name, str) else None
        if handler is None:
            return Call(name, arguments, given)
        handler.check(arguments)
        return Call(name, arguments, defaulted(given, handler))

    def enqueue_many(self, calls: Iterable[Call], *, using: object = None) -> Handles:
        """Enqueue calls of several tasks, all or nothing."""
        requests = requests_of(calls, bytes_max=self.config.payload_bytes_max)
        return Handles(self._producer.send_many(requests, using), self._producer)

    async def aenqueue_many(self, calls: Iterable[Call], *, using: object = None) -> Handles:
        """The same on the event loop."""
        requests = requests_of(calls, bytes_max=self.config.payload_bytes_max)
        return Handles(await self._producer.asend_many(requests, using), self._producer)

    def handle(self, task_id: int) -> Handle:
        """Return the handle of a task whose id is known."""
        if isinstance(task_id, bool) or not isinstance(task_id, int) or not 0 < task_id <= ID_MAX:
            raise ValueError(
                f"{shown(task_id)} is no id of a task; that is a whole number, as enqueue returns it"
            )
        return Handle(task_id, False, self._producer)

    def run_worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
    ) -> None:
        """Run a worker in this process until it is stopped. It installs no signal handlers."""
        loop.run(self.arun_worker(queues=queues, concurrency=concurrency, until_empty=until_empty))

    async def arun_worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
    ) -> None:
        """Run a worker on this loop. On cancellation the worker first stops cleanly."""
        await self.worker(queues=queues, concurrency=concurrency, until_empty=until_empty).run()

    def worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until_empty: bool = False,
        **settings: Any,
    ) -> Worker:
        """Return a worker that is not started. The settings given here override the application's."""
        given = {"queues": queues, "concurrency": concurrency, **settings}
        own = {name: value for name, value in given.items() if value is not None}
        config = Config.load(**{**self._settings, **own})
        return Worker(config, self.registry, until_empty=until_empty)

    def close(self) -> None:
        """Close the connections opened for threads."""
        self._producer.close()

    async def aclose(self) -> None:
        """Close the connections opened on this loop."""
        await self._producer.aclose()

    def _read_config(self) -> Config:
        return Config.load(**self._settings)
