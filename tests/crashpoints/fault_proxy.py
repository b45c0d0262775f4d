"""A proxy that reads the protocol: it counts the messages of a client, and causes a fault at one of them.

    CUT BEFORE   the connection ends before the server receives the message
    CUT AFTER    the server has executed it, and its answer is lost
    KILL         the client dies (SIGKILL) after it has sent the message, before the answer; it sends nothing more
    FREEZE       the client is frozen (SIGSTOP) after it has sent the message, and the message reaches the server only
                 after `thaw`: a late packet of a worker that was declared dead long ago

The connections are not encrypted; the URL sets that. There is no CUT AFTER for a message without an answer (Parse,
Bind, Execute): the server commits nothing before the Sync, so it would equal the next message's CUT BEFORE. A client is
never frozen in the middle of one write, because the kernel sends the rest.
"""

import os
import signal
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.proxy import CHUNK_BYTES, Link, Proxy

CANCEL_REQUEST = 80_877_102
ANSWER_SECONDS = 10.0
STARTUP, QUERY, SYNC, READY = "startup", "Q", "S", "Z"
ASKING = frozenset({STARTUP, QUERY, SYNC})


class Fault(Enum):
    """The kinds of faults."""

    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"
    KILL = "kill -9"
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One message: its connection, whether the client has been asked to stop, its number, its letter, and whether it
    is the first since the last answered one. The messages that a client sends at once begin with such a message."""

    purpose: str
    ending: bool
    number: int
    letter: str
    begins: bool

    @property
    def asks(self) -> bool:
        """Whether the server answers it, after it has executed it."""
        return self.letter in ASKING

    def __str__(self) -> str:
        return f"{self.purpose}{' (ending)' if self.ending else ''} {self.number}{self.letter}"


@dataclass(frozen=True, slots=True)
class Point:
    """A fault at a message."""

    place: Place
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault.value} {self.place}"

    def holds_at(self, place: Place) -> bool:
        """Return whether the fault occurs here: at its message, or, if this run differs (for example by a statement
        that is prepared by now), at the next message where such a fault is possible."""
        where = self.place
        is_there = (place.purpose, place.ending) == (
            where.purpose,
            where.ending,
        ) and place.number >= where.number
        return is_there and fits(self.fault, place)


def fits(fault: Fault, place: Place) -> bool:
    """Return whether a fault is possible at a message."""
    return (place.asks or fault is not Fault.CUT_AFTER) and (place.begins or fault is not Fault.FREEZE)


def points_of(places: Iterable[Place]) -> list[Point]:
    """Return every point of a run with these messages."""
    return [Point(place, fault) for place in places for fault in Fault if fits(fault, place)]


class Frames:
    """Splits one direction of a connection into messages."""

    def __init__(self, *, greeted: bool) -> None:
        self._buffer = bytearray()
        self._greeted = greeted

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the letter and the bytes of each complete message."""
        self._buffer += data
        # Ends: each round takes a message out of the buffer.
        while (size := self._size()) <= len(self._buffer):
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield (chr(frame[0]) if self._greeted else STARTUP), frame
            self._greeted = True

    def _size(self) -> int:
        head = 1 if self._greeted else 0
        if len(self._buffer) < head + 4:
            return head + 4
        (length,) = struct.unpack_from("!i", self._buffer, head)
        return head + int(length)


def purpose_of(startup: bytes) -> str:
    """Return the purpose of a connection from its first message: its application name."""
    if struct.unpack_from("!i", startup, 4) == (CANCEL_REQUEST,):
        return "cancel"
    words = startup[8:].split(b"\0")
    named = dict(zip(words[::2], words[1::2], strict=False))
    return named.get(b"application_name", b"producer").decode().removeprefix("orchestrator ")


class FaultyLink(Link):
    """One client's connection, message by message."""

    def __init__(self, fault_proxy: "FaultProxy", client: socket.socket, server: socket.socket) -> None:
        self._fault_proxy = fault_proxy
        self._purpose = ""
        self._asked = self._answered = 0
        self._begins = True
        # From this answer on, no data reaches the client.
        self._lost_from: int | None = None
        self._lost = threading.Event()
        super().__init__(fault_proxy, client, server)

    def _forth(self) -> None:
        frames = Frames(greeted=False)
        with suppress(OSError):
            while data := self.client.recv(CHUNK_BYTES):
                held = bytearray()
                for letter, frame in frames.feed(data):
                    if letter == STARTUP:
                        self._purpose = purpose_of(frame)
                    self._asked += letter in ASKING
                    fault = self._fault_proxy.passes(self._purpose, letter, begins=self._begins)
                    self._begins = letter in ASKING
                    if fault is not None:
                        self.server.sendall(held)
                        held.clear()
                        if not self._strike(fault, letter, frame):
                            self.cut()
                            return
                    held += frame
                self.server.sendall(held)
        self.cut()

    def _strike(self, fault: Fault, letter: str, frame: bytes) -> bool:
        """Cause the fault. Return whether this message, and the following ones, may pass."""
        match fault:
            case Fault.CUT_BEFORE:
                self._fault_proxy.strike()
                return False
            case Fault.FREEZE:
                self._fault_proxy.strike(signal.SIGSTOP)
                self._fault_proxy.thawed.wait()
                return True
            case Fault.KILL:
                self._fault_proxy.strike(signal.SIGKILL)
            case Fault.CUT_AFTER:
                pass
        self._lost_from = self._asked
        self.server.sendall(frame)
        if letter in ASKING:
            self._lost.wait(ANSWER_SECONDS)
        if fault is Fault.CUT_AFTER:
            self._fault_proxy.strike()
        return False

    def _back(self) -> None:
        frames = Frames(greeted=True)
        with suppress(OSError):
            while data := self.server.recv(CHUNK_BYTES):
                self._answered += sum(letter == READY for letter, _ in frames.feed(data))
                if self._lost_from is None:
                    self.client.sendall(data)
                elif self._answered >= self._lost_from:
                    break
        self._lost.set()
        self.cut()
        self.client.close()
        self.server.close()


class FaultProxy(Proxy):
    """Listens on a loopback port, counts, and causes one fault."""

    link = FaultyLink  # type: ignore[assignment] # only a proxy makes them

    def __init__(self, url: str, point: Point | None = None) -> None:
        self._point = point
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._ending = False
        self._victim: int | None = None
        self._aimed = threading.Event()
        self.places: list[Place] = []
        self.struck = threading.Event()
        self.thawed = threading.Event()
        super().__init__(url)
        self.url += "?sslmode=disable&gssencmode=disable"

    def __exit__(self, *_: Any) -> None:
        self.thawed.set()
        self._aimed.set()
        super().__exit__()

    @property
    def fault(self) -> Fault | None:
        """The fault, if its point is reached."""
        return None if self._point is None else self._point.fault

    def aim(self, pid: int) -> None:
        """Set the process of the client. Before this call no fault occurs."""
        self._victim = pid
        self._aimed.set()

    def client_was_asked_to_stop(self) -> None:
        """From now on, count the messages separately."""
        with self._lock:
            self._ending = True

    def thaw(self) -> None:
        """Forward the held message."""
        self.thawed.set()

    def passes(self, purpose: str, letter: str, *, begins: bool) -> Fault | None:
        """Count a message. Return the fault that occurs at it, if any."""
        with self._lock:
            self._counts[purpose, self._ending] += 1
            place = Place(purpose, self._ending, self._counts[purpose, self._ending], letter, begins)
            self.places.append(place)
            point = self._point
            if point is None or self.struck.is_set() or not point.holds_at(place):
                return None
            return point.fault

    def strike(self, number: signal.Signals | None = None) -> None:
        """Send the client a signal, if any, and note that the fault has occurred."""
        self._aimed.wait()
        if number is not None and self._victim is not None:
            with suppress(ProcessLookupError):
                os.kill(self._victim, number)
        self.struck.set()
