"""Keep the subscribers, and call them for each event: at once, on the emitter's thread.

A subscriber must be quick. One that raises misses that event. Its error goes to standard error: an event for it could
fail again, and so on for ever.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from orchestrator.events.event import Event

Subscriber = Callable[[Event], None]
_subscribers: list[tuple[Subscriber, frozenset[type[Event]] | None]] = []
# The subscribers of each kind; found once, until a subscription begins or ends.
_routes: dict[type[Event], tuple[Subscriber, ...]] = {}
# For each thread: the events that wait until a transaction is committed.
_kept = threading.local()


def subscribe(subscriber: Subscriber, *, to: Iterable[type[Event]] | None = None) -> Callable[[], None]:
    """Call this for every event from now on, or for some kinds. Returns a function that ends the subscription."""
    entry = (subscriber, None if to is None else frozenset(to))
    _subscribers.append(entry)
    _forget_routes()

    def unsubscribe() -> None:
        with suppress(ValueError):
            _subscribers.remove(entry)
        _forget_routes()

    return unsubscribe


def wanted(kind: type[Event]) -> bool:
    """Return whether such events have a subscriber. Without one, an emitter of thousands need not make them."""
    return bool(_route(kind))


def emit(event: Event) -> None:
    """Call every subscriber of this event."""
    if (kept := getattr(_kept, "events", None)) is not None:
        kept.append(event)
        return
    for subscriber in _route(type(event)):
        try:
            subscriber(event)
        except Exception as error:
            sys.stderr.write(
                f"orchestrator: a subscriber failed on {type(event).__name__}: {type(error).__name__}\n"
            )


@contextmanager
def when_done() -> Iterator[None]:
    """Hold this thread's events until the block ends, and drop them if it raises: for a transaction."""
    _kept.events = events = list[Event]()
    try:
        yield
    finally:
        _kept.events = None
    for event in events:
        emit(event)


def kinds(of: type[Event] = Event) -> list[type[Event]]:
    """Return every kind of event, or every kind below this one: those that are emitted, without base classes."""
    below = of.__subclasses__()
    # Each has slots. The class from which the decorator made it may still exist, and has none.
    made = [kind for kind in below if "__slots__" in vars(kind)]
    return [leaf for kind in made for leaf in kinds(kind)] if made else [of]


def _route(kind: type[Event]) -> tuple[Subscriber, ...]:
    routes = _routes
    found = routes.get(kind)
    if found is None:
        found = tuple(who for who, kinds in tuple(_subscribers) if kinds is None or kind in kinds)
        # Into the dictionary that was current before the look: a subscription meanwhile has replaced it.
        routes[kind] = found
    return found


def _forget_routes() -> None:
    global _routes
    _routes = {}
