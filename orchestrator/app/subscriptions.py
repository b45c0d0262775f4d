"""The functions of an application that are called for events of its processes."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from orchestrator import events
from orchestrator.errors import ConfigError
from orchestrator.task.duration import cut, shown


class Subscriptions:
    """The subscribers of one application. Each is called on its own thread (`events.aside`)."""

    def __init__(self) -> None:
        self._ends: list[tuple[Callable[..., object], Callable[[], None]]] = []

    def add(self, subscriber: Callable[..., object], kinds: Sequence[type[events.Event]]) -> None:
        """Call a function for events of these kinds from now on."""
        check(subscriber)
        wanted = [leaf for kind in kinds for leaf in events.kinds(kind)]
        self._ends.append((subscriber, events.aside(subscriber, to=wanted)))

    def remove(self, subscriber: Callable[..., object]) -> None:
        """Stop calling it. Events that are queued for it still arrive."""
        ending = [end for one, end in self._ends if one == subscriber]
        if not ending:
            raise ConfigError(f"{name_of(subscriber)} is not subscribed to anything")
        self._ends = [(one, end) for one, end in self._ends if one != subscriber]
        for end in ending:
            end()


def checked(kinds: Sequence[Any]) -> Sequence[type[events.Event]]:
    """Refuse what is not an event, above all the error of the same name."""
    if not kinds:
        raise ConfigError("on() without an event; name one or more, for example on(events.TaskFailed)")
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, events.Event):
            continue
        name = cut(getattr(kind, "__name__", shown(kind)))
        namesake = isinstance(kind, type) and hasattr(events, name)
        raise ConfigError(
            f"{name} is no event" + (f"; did you mean orchestrator.events.{name}?" if namesake else "")
        )
    return kinds


def check(subscriber: Callable[..., object]) -> None:
    """Refuse what cannot run on a thread: a call of a coroutine function would only make a coroutine there."""
    if not callable(subscriber):
        raise ConfigError(f"{shown(subscriber)} cannot be called; on() takes a function of one event")
    if any(map(inspect.iscoroutinefunction, (subscriber, getattr(subscriber, "__call__", None)))):  # noqa: B004
        raise ConfigError(
            f"{name_of(subscriber)} is a coroutine function; a subscriber is a `def`, called on a thread of its own, "
            "where asyncio.run() may run a coroutine"
        )


def name_of(subscriber: Callable[..., object]) -> str:
    return cut(getattr(subscriber, "__qualname__", None) or shown(subscriber))
