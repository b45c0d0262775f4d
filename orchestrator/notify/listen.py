"""Listen on a connection of its own, and call back for each ring; come back whenever the connection breaks.

Needs a direct connection: through PgBouncer in transaction mode LISTEN succeeds and delivers nothing. So the worker
sends itself a notification, at the start and at a slow beat, over another connection; while none arrives, its poll is
all there is. Once one has, this session also holds the worker's *beacon*, an advisory lock that goes when the process
does, and within milliseconds, since nothing else runs here (on a busy session: 5.5 s). Through PgBouncer it would leak,
which is why the test comes first.

    listen ──► ask to be rung ──► heard: light the beacon ──► hear, and ask again each minute
                                  not heard: deaf, the beacon is put out; ask again
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from psycopg.pq.misc import PGnotify

from orchestrator import events
from orchestrator.postgres import statement, transient
from orchestrator.postgres.session import Connection, Session

LISTEN = statement.load(__file__, "listen.sql")
LISTEN_WORKERS = statement.load(__file__, "listen_workers.sql")
TAKE_BEACON = statement.load(__file__, "take_beacon.sql")

WORKERS_CHANNEL = "orchestrator_workers"
TEST_EVERY_SECONDS = 60.0
DEAF_AFTER_SECONDS = 3.0
RECONNECT_SECONDS = 0.1
# While the answer to our own ring is awaited.
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Calls:
    """Whom the listener calls back, on the loop, and what it asks."""

    rung: Callable[[], None]  # there may be work
    called: Callable[[], None]  # something about us, or about the lead, may have changed
    hears: Callable[[bool], None]  # whether notifications arrive
    beacon_changed: Callable[[int | None], None]  # which beacon is held now
    ring: Callable[[], None]  # send a notification to this worker, over another connection
    rang_at: Callable[[], float | None]  # when that was sent, if it was


class Listener:
    """Hears rings for as long as it runs."""

    def __init__(self, session: Session, *, worker_id: UUID, queues: tuple[str, ...], calls: Calls) -> None:
        self._session = session
        self._worker_id = worker_id
        self._queues = frozenset(queues)
        self._calls = calls
        self._beacon: int | None = None
        self._heard = False
        self._test_at = 0.0
        self._deaf = False

    async def run(self) -> None:
        """Listen, for ever."""
        while True:
            await self._session.run(listen, give_up_on=lambda _error: False)
            # What was sent while nobody listened is lost: look once.
            self._calls.rung()
            self._calls.called()
            self._test()
            try:
                await self._session.run(self._hear, give_up_on=lambda _error: True, answer_seconds=None)
            except Exception as error:
                self._drop_beacon()
                if not transient.is_transient(error):
                    raise
                await asyncio.sleep(RECONNECT_SECONDS)

    def begin_anew(self, worker_id: UUID) -> None:
        """The worker has another id: so has its beacon."""
        self._worker_id = worker_id
        self._drop_beacon()
        # Not by closing the connection: another one, opened at once, may get its file descriptor, and who waits on it
        # here would go on waiting, for up to a minute.
        self._test()

    def listen_anew(self) -> None:
        """Our beacon is out, by the server that we beat to: what we listen on is gone, or leads to a server that is the
        primary no more, says nothing, and would never be asked to write."""
        self._session.hang_up()

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _hear(self, connection: Connection) -> None:
        # What comes while this connection lights the beacon.
        connection.add_notify_handler(lambda told: self._take(told.channel, told.payload))
        while True:
            await readable(
                connection, max(0.0, self._test_at - time.monotonic()) if self._heard else LOOK_SECONDS
            )
            for told in received(connection):
                self._take(told.relname.decode(), told.extra.decode())
            if self._heard and self._beacon is None:
                await self._take_beacon(connection)
            if self._heard and time.monotonic() >= self._test_at:
                self._test()
            elif not self._heard:
                self._judge()

    def _take(self, channel: str, payload: str) -> None:
        if channel != WORKERS_CHANNEL:
            if payload in self._queues:
                events.emit(events.NotificationHeard(payload))
                self._calls.rung()
            return
        events.emit(events.NotificationHeard(None))
        if payload == str(self._worker_id):
            if not self._heard:
                self._heard, self._deaf = True, False
                self._test_at = time.monotonic() + TEST_EVERY_SECONDS
                self._calls.hears(True)
            self._calls.called()
        elif payload == "lead":
            self._calls.called()

    def _test(self) -> None:
        self._heard = False
        self._calls.ring()

    def _judge(self) -> None:
        """Find ourselves deaf, when our own ring was sent and did not arrive; ask again."""
        rang_at = self._calls.rang_at()
        if rang_at is None or time.monotonic() - rang_at < DEAF_AFTER_SECONDS:
            return
        if not self._deaf:
            self._deaf = True
            events.emit(events.ListenDeaf(self._worker_id))
        self._drop_beacon()
        if time.monotonic() - rang_at > TEST_EVERY_SECONDS:
            self._calls.ring()

    async def _take_beacon(self, connection: Connection) -> None:
        beacon, worker_id = secrets.randbits(63), self._worker_id
        await connection.execute(TAKE_BEACON, {"worker_id": worker_id, "beacon": beacon})
        if worker_id != self._worker_id:
            return  # another id meanwhile: it gets a beacon of its own, and this one is put out
        # Only now may the row say so: a beacon that is not lit yet would pass for one that is gone.
        self._beacon = beacon
        self._calls.beacon_changed(beacon)

    def _drop_beacon(self) -> None:
        self._heard = False
        self._calls.hears(False)
        if self._beacon is not None:
            self._beacon = None
            self._calls.beacon_changed(None)


async def readable(connection: Connection, seconds: float) -> None:
    """Wait until something has come from the server, for so long at most. By the socket itself: the driver's own wait
    looks around ten times a second, and takes longer to tell."""
    loop, socket = asyncio.get_running_loop(), connection.fileno()
    came: asyncio.Future[None] = loop.create_future()
    loop.add_reader(socket, set_once, came)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await came
    finally:
        loop.remove_reader(socket)


def set_once(came: asyncio.Future[None]) -> None:
    if not came.done():
        came.set_result(None)


def received(connection: Connection) -> Iterator[PGnotify]:
    """Read what has come; raises when the connection broke."""
    connection.pgconn.consume_input()
    # Ends: each call takes one away.
    while (told := connection.pgconn.notifies()) is not None:
        yield told


async def listen(connection: Connection) -> None:
    await connection.execute(LISTEN)
    await connection.execute(LISTEN_WORKERS)
