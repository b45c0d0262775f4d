"""Call each of the users' subscribers on its own thread: one that is slow, raises or hangs harms neither a task nor
the other subscribers.

    emit ──► queue, bounded ──► the subscriber's thread ──► the subscriber

A full queue takes no more events: the dropped ones are counted, and an event reports the count every
`REPORT_EVERY_SECONDS`. The thread begins with the first event, and again in a forked process, where it is missing. A
worker that stops first waits, for a bounded time, until the queued events are handed over (`settle`).
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import iscoroutine
from queue import SimpleQueue
from typing import Any

from orchestrator.events.bus import emit, subscribe
from orchestrator.events.event import Event

QUEUE_MAX = 10_000
REPORT_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class EventsDropped(Event):
    """The queue of a slow subscriber was full. The subscriber missed `count` events."""

    subscriber: str
    count: int


@dataclass(frozen=True, slots=True)
class SubscriberFailed(Event):
    """A user's subscriber raised an error. It goes on with the next event."""

    subscriber: str
    kind: str
    error_class: str
    message: str


# A subscriber that fails, or is too slow, on one of these causes no new event: that could go on for ever.
OF_OURSELVES = (EventsDropped, SubscriberFailed)


class Aside:
    """One subscriber, its queue and its thread."""

    def __init__(self, subscriber: Callable[[Any], object], *, queue_max: int = QUEUE_MAX) -> None:
        self._subscriber = subscriber
        self._name = getattr(subscriber, "__qualname__", None) or type(subscriber).__name__
        self._queue_max = queue_max
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._queue: SimpleQueue[Event | threading.Event | None] = SimpleQueue()
        self._dropped = 0
        self._reported_at = float("-inf")

    def take(self, event: Event) -> None:
        """Queue an event. Runs on the emitter's thread, so it never waits."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        if self._queue.qsize() < self._queue_max:
            self._queue.put(event)
        elif not isinstance(event, OF_OURSELVES):
            self._dropped += 1  # with several threads at once it may miss one: an exact count is not needed
            self._report_dropped()

    def settle(self, seconds: float) -> bool:
        """Wait until the subscriber has the events queued by now. Return whether it got them in time."""
        if self._thread is None or not self._thread.is_alive():
            return True
        done = threading.Event()
        self._queue.put(done)
        return done.wait(max(0.0, seconds))

    def end(self) -> None:
        """Deliver the queued events, and end the thread."""
        self._queue.put(None)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                # In a forked process, the events queued before belong to the parent.
                self._queue = SimpleQueue()
                self._thread = threading.Thread(
                    target=self._run, name=f"orchestrator subscriber {self._name}", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        queue = self._queue
        while (event := queue.get()) is not None:
            if isinstance(event, threading.Event):
                event.set()
            else:
                self._deliver(event)
            self._report_dropped()

    def _report_dropped(self) -> None:
        """Emitters and our own thread call this: our thread may hang in the subscriber for ever."""
        if self._dropped and time.monotonic() - self._reported_at > REPORT_EVERY_SECONDS:
            self._reported_at = time.monotonic()
            count, self._dropped = self._dropped, 0
            emit(EventsDropped(self._name, count))

    def _deliver(self, event: Event) -> None:
        try:
            answer = self._subscriber(event)
            if iscoroutine(answer):
                answer.close()
                raise TypeError("returned a coroutine, which is not awaited; call asyncio.run() in it")
        except BaseException as error:  # a SystemExit must not end this thread either
            if not isinstance(event, OF_OURSELVES):
                emit(SubscriberFailed(self._name, type(event).__name__, type(error).__name__, str(error)))


_asides: list[Aside] = []


def aside(
    subscriber: Callable[[Any], object],
    *,
    to: Iterable[type[Event]] | None = None,
    queue_max: int = QUEUE_MAX,
) -> Callable[[], None]:
    """Call this for every event from now on, or for some kinds, on its own thread. Returns a function that ends the
    subscription."""
    one = Aside(subscriber, queue_max=queue_max)
    unsubscribe = subscribe(one.take, to=to)
    _asides.append(one)

    def end() -> None:
        if one in _asides:
            unsubscribe()
            _asides.remove(one)
            one.end()

    return end


def settle(seconds: float) -> bool:
    """Wait until all subscribers have the events queued by now. Return whether they got them in time."""
    deadline = time.monotonic() + seconds
    # Ask all of them, also after one that was not in time.
    in_time = [one.settle(deadline - time.monotonic()) for one in tuple(_asides)]
    return all(in_time)
