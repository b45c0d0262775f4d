"""Which handler runs which type. Filled by decorators, read by workers; nothing else finds code here."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import RegistryError
from orchestrator.execute.arguments import Hints, hints_of, typed
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Handler:
    """A function registered for a type, with the defaults of its tasks. None: ask the queue, then the house."""

    type: str
    function: Callable[..., Any]
    queue: str
    priority: int | None
    max_attempts: int | None
    timeout_seconds: float | None
    backoff: Backoff
    is_async: bool
    signature: inspect.Signature
    context_name: str | None
    hints: Hints
    # The names of the arguments it may be given, and of those it must be: frozensets, to be compared with a payload's.
    accepted: frozenset[str]
    required: frozenset[str]

    def bind(self, arguments: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Fit a payload to the function's parameters and their annotations, the context among them; TypeError says
        why it does not."""
        given = dict(arguments)
        if self.context_name is not None:
            if self.context_name in given:
                raise TypeError(
                    f"{self.context_name!r} is the handler's Context and cannot come from the payload"
                )
            given[self.context_name] = context
        self.signature.bind(**given)
        return typed(given, self.hints)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the function would refuse; asked where a task is enqueued."""
        # Tells the usual call from all others: 0.2 µs where binding takes 3 (Python 3.11).
        if type(arguments) is dict and self.required <= arguments.keys() <= self.accepted:
            return
        given = dict(arguments)
        if self.context_name is not None:
            if self.context_name in given:
                raise TypeError(
                    f"{self.type}: {self.context_name!r} is the handler's Context; it is not enqueued"
                )
            given[self.context_name] = None
        try:
            self.signature.bind(**given)
        except TypeError as error:
            raise TypeError(f"{self.type}: {error}") from None


class Registry:
    """The handlers of one application, by type."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Register a handler; a type has one."""
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
) -> Handler:
    """Describe a function as a handler, refusing one that could never be called."""
    kind = name if name is not None else default_name(function)
    if not kind or len(kind) > 200 or not kind.isprintable():
        raise RegistryError(f"a task's name must be 1 to 200 printable characters, not {kind!r}")
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
        name: parameter
        for name, parameter in signature.parameters.items()
        if name != context_name and parameter.kind is not parameter.VAR_POSITIONAL
    }
    return Handler(
        type=kind,
        function=function,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        timeout_seconds=timeout_seconds,
        backoff=backoff,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
        context_name=context_name,
        hints=hints_of(function, without=context_name),
        accepted=frozenset(
            name for name, parameter in named.items() if parameter.kind is not parameter.VAR_KEYWORD
        ),
        required=frozenset(name for name, parameter in named.items() if parameter.default is parameter.empty),
    )


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
        # An annotation that only a type checker can resolve; Context itself may still be given as a name.
        hints = dict(getattr(function, "__annotations__", {}))
    return next((name for name, hint in hints.items() if hint is Context or hint == "Context"), None)
