"""Which handler runs which type. Decorators fill the registry, and workers find handlers only here."""

import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.errors import RegistryError
from orchestrator.execute.arguments import Hints, hints_of, typed
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff
from orchestrator.task.duration import cut, shown

REASON_CHARACTERS_MAX = 200

Executor = Literal["async", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """A function registered for a type, with the defaults of its tasks. None: the queue's default, or the built-in."""

    type: str
    function: Callable[..., Any]
    queue: str
    priority: int | None
    max_attempts: int | None
    timeout_seconds: float | None
    backoff: Backoff
    executor: Executor
    is_async: bool  # stored, since each attempt reads it
    signature: inspect.Signature
    context_name: str | None
    hints: Hints
    required: frozenset[str]
    allowed: frozenset[str] | None  # None: it takes any

    def takes_as_is(self, arguments: dict[str, Any]) -> bool:
        """Tell whether a payload's values are the function's arguments as they are: no context to add, nothing to
        convert."""
        if self.context_name is not None or self.hints:
            return False
        # A copy of `_fits`: this runs before each attempt, and the call took a third of its time.
        names = arguments.keys()
        return names >= self.required and (self.allowed is None or names <= self.allowed)

    def bind(self, arguments: Mapping[str, Any], context: Context | None) -> dict[str, Any]:
        """Convert a payload to the function's arguments, with the context. TypeError says why it does not fit."""
        given = dict(arguments)
        if self.context_name is not None:
            if self.context_name in given:
                raise TypeError(
                    f"{self.context_name!r} is the handler's Context and cannot come from the payload"
                )
            given[self.context_name] = context
        if not self._fits(given):
            self.signature.bind(**given)
        return typed(given, self.hints)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise TypeError for arguments that the function would refuse. Called when a task is enqueued."""
        given = dict(arguments)
        if self.context_name is not None:
            if self.context_name in given:
                raise TypeError(
                    f"{self.type}: {self.context_name!r} is the handler's Context; it is not enqueued"
                )
            given[self.context_name] = None
        if self._fits(given):
            return
        try:
            self.signature.bind(**given)
        except TypeError as error:
            # It repeats the name of an argument.
            raise TypeError(f"{self.type}: {cut(str(error), REASON_CHARACTERS_MAX)}") from None

    def _fits(self, given: dict[str, Any]) -> bool:
        """Tell whether the function takes these names. `signature.bind` checks the same in 3 µs, and says why not."""
        names = given.keys()
        return names >= self.required and (self.allowed is None or names <= self.allowed)


class Registry:
    """The handlers of one application, by type."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Register a handler. A type has only one."""
        if handler.type in self._handlers:
            raise RegistryError(
                f"task type {handler.type!r} is declared twice; give one of the two another name="
            )
        self._handlers[handler.type] = handler

    def find(self, kind: str) -> Handler | None:
        """Return the handler of a type, if this process knows it."""
        return self._handlers.get(kind)

    def __iter__(self) -> Iterator[Handler]:
        return iter(sorted(self._handlers.values(), key=lambda handler: handler.type))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of all handlers."""
        return tuple(sorted(self._handlers))

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of all handlers, and `default`."""
        return tuple(sorted({"default", *(handler.queue for handler in self)}))

    def __len__(self) -> int:
        return len(self._handlers)


def handler_of(
    function: Callable[..., Any],
    *,
    name: str | None,
    queue: str,
    priority: int | None,
    max_attempts: int | None,
    timeout_seconds: float | None,
    backoff: Backoff,
    executor: str | None = None,
) -> Handler:
    """Make the handler for a function. RegistryError if it could never be called."""
    kind = name if name is not None else default_name(function)
    if not isinstance(kind, str) or not kind or len(kind) > 200 or not kind.isprintable():
        raise RegistryError(f"a task's name must be 1 to 200 printable characters, not {shown(kind)}")
    if not isinstance(backoff, Backoff):
        raise RegistryError(
            f"{kind}: backoff must be a Backoff, for example Backoff(cap_seconds=60), not {shown(backoff)}"
        )
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise RegistryError(
                f"{kind}: parameter {parameter.name!r} is positional-only, but payloads hold keyword arguments"
            )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise RegistryError(
            f"{kind}: a generator cannot be a handler; use a def or an async def that returns"
        )
    context_name = context_parameter(function)
    named = {
        name: p for name, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    return Handler(
        type=kind,
        function=function,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        timeout_seconds=timeout_seconds,
        backoff=backoff,
        executor=executor_of(function, kind, executor),
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
        context_name=context_name,
        hints=hints_of(function, without=context_name),
        required=frozenset(name for name, parameter in named.items() if parameter.default is parameter.empty),
        allowed=None if takes_any else frozenset(named),
    )


def executor_of(function: Callable[..., Any], kind: str, wish: str | None) -> Executor:
    """Return the executor of a function. RegistryError if it cannot run there."""
    if wish not in (None, "thread", "process"):
        raise RegistryError(
            f'{kind}: there is no executor {shown(wish)}; a def runs in a "thread" or in a "process"'
        )
    if inspect.iscoroutinefunction(function):
        if wish is not None:
            raise RegistryError(
                f'{kind}: an async def runs on the event loop; make it a def to run it with executor="{wish}"'
            )
        return "async"
    if wish != "process":
        return "thread"
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        raise RegistryError(
            f'{kind}: with executor="process" a child process imports the function by its name, so it must be a def '
            f"at the top of a module that can be imported, not {name or function!r} in {module}"
        )
    return "process"


def default_name(function: Callable[..., Any]) -> str:
    if function.__module__ == "__main__":
        raise RegistryError(
            f"{function.__qualname__}: give it a name=, since __main__ is another module in every process"
        )
    return f"{function.__module__}.{function.__qualname__}"


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter annotated `Context`, if there is one."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        # Some annotation can be resolved only by a type checker. The annotation of the context may be a string.
        hints = dict(getattr(function, "__annotations__", {}))
    return next((name for name, hint in hints.items() if hint is Context or hint == "Context"), None)


def found(module: str, name: str) -> Handler:
    """Import a module and return the handler of the function with this name. Call it only with names that a registry
    holds, never with a name out of a row."""
    target: Any = importlib.import_module(module)
    for step in name.split("."):
        target = getattr(target, step)
    handler = getattr(target, "handler", None)  # set by the decorator
    if isinstance(handler, Handler):
        return handler
    return handler_of(
        target,
        name=name,
        queue="default",
        priority=None,
        max_attempts=None,
        timeout_seconds=None,
        backoff=Backoff(),
    )


def check_within_reach(handler: Handler) -> None:
    """Raise RegistryError if a child process could not import the handler's function, or would find another."""
    module, name = handler.function.__module__, handler.function.__qualname__
    advice = (
        f'{handler.type} runs with executor="process", and a child process could not import {module}.{name}'
    )
    try:
        there = found(module, name).function
    except (ImportError, AttributeError, TypeError, RegistryError) as error:
        raise RegistryError(f"{advice}: {error}") from None
    if inspect.unwrap(there) is not inspect.unwrap(handler.function):
        raise RegistryError(f"{advice}: there is another function of this name; give it one of its own")
