"""Who wants to know of which events, and telling them: at once, on the thread of whoever emits.

A subscriber must be quick. One that raises is left out of that event; what it raised is told on standard error, since
to emit an event of it could go on for ever.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from orchestrator.events.event import Event

Subscriber = Callable[[Event], None]
_subscribers: list[tuple[Subscriber, frozenset[type[Event]] | None]] = []
# Who wants to know of which kind; found once, for as long as nobody comes or goes.
_routes: dict[type[Event], tuple[Subscriber, ...]] = {}
# By thread: what is told only when a transaction has been committed.
_kept = threading.local()


def subscribe(subscriber: Subscriber, *, to: Iterable[type[Event]] | None = None) -> Callable[[], None]:
    """Call this for every event from now on, or for those of some kinds; returns what ends it."""
    entry = (subscriber, None if to is None else frozenset(to))
    _subscribers.append(entry)
    _forget_routes()

    def unsubscribe() -> None:
        with suppress(ValueError):
            _subscribers.remove(entry)
        _forget_routes()

    return unsubscribe


def wanted(kind: type[Event]) -> bool:
    """Tell whether anybody wants to know of such events: who emits thousands need not make them for nobody."""
    return bool(_route(kind))


def emit(event: Event) -> None:
    """Tell everybody who subscribed."""
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
    """Tell what this thread emits in here at the end, and nothing of it if that is an error: for a transaction."""
    _kept.events = events = list[Event]()
    try:
        yield
    finally:
        _kept.events = None
    for event in events:
        emit(event)


def kinds(of: type[Event] = Event) -> list[type[Event]]:
    """Return every kind of event there is, or that is one of these: those that are emitted, and no base of others."""
    below = of.__subclasses__()
    # Each has slots; the class that the decorator made it from may still be about, and has none.
    made = [kind for kind in below if "__slots__" in vars(kind)]
    return [leaf for kind in made for leaf in kinds(kind)] if made else [of]


def _route(kind: type[Event]) -> tuple[Subscriber, ...]:
    routes = _routes
    found = routes.get(kind)
    if found is None:
        found = tuple(who for who, kinds in tuple(_subscribers) if kinds is None or kind in kinds)
        # In the dictionary of before we looked: should somebody have subscribed meanwhile, another one counts.
        routes[kind] = found
    return found


def _forget_routes() -> None:
    global _routes
    _routes = {}
