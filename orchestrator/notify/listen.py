"""Listen on an own connection, and call back for each ring; reconnect whenever the connection breaks.

Needs a direct connection: through PgBouncer in transaction mode LISTEN succeeds and delivers nothing. So the worker
sends itself a notification over another connection, at the start and then once a minute. Until one arrives, it only
polls. Once one has arrived, this session also holds the worker's *beacon*, an advisory lock that ends with the process,
within milliseconds, since nothing else runs here (on a busy session: 5.5 s). Through PgBouncer the lock would leak; so
the test comes first.

    listen ──► ask for a ring ──► received: take the beacon ──► receive, and test again each minute
                                  not received: release the beacon; ask again
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
from orchestrator.postgres import statement, transient_errors
from orchestrator.postgres.session import Connection, Session

LISTEN = statement.load(__file__, "listen.sql", "queues")
LISTEN_WORKERS = statement.load(__file__, "listen.sql", "workers")
TAKE_BEACON = statement.load(__file__, "listen.sql", "beacon")

WORKERS_CHANNEL = "orchestrator_workers"
TEST_EVERY_SECONDS = 60.0
DEAF_AFTER_SECONDS = 3.0
RECONNECT_SECONDS = 0.1
# How often to look while we wait for our own ring.
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Calls:
    """What the listener calls, on the loop."""

    rung: Callable[[], None]  # there may be tasks
    called: Callable[[], None]  # our row, our tasks or the lead may have changed
    hears: Callable[[bool], None]  # whether notifications arrive
    beacon_changed: Callable[[int | None], None]  # which beacon is held now; None: none
    ring: Callable[[], None]  # send a notification to this worker, over another connection
    rang_at: Callable[[], float | None]  # when that was sent; None: not yet


class Listener:
    """Receives notifications for as long as it runs."""

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
            # Notifications sent while this worker did not listen are lost: look once.
            self._calls.rung()
            self._calls.called()
            self._test()
            try:
                await self._session.run(self._hear, give_up_on=lambda _error: True, answer_seconds=None)
            except Exception as error:
                self._drop_beacon()
                if not transient_errors.is_transient(error):
                    raise
                await asyncio.sleep(RECONNECT_SECONDS)

    def begin_anew(self, worker_id: UUID) -> None:
        """Use another worker id, and so another beacon."""
        self._worker_id = worker_id
        self._drop_beacon()
        # The connection stays open: another one, opened at once, might get its file descriptor, and the wait here would
        # go on for up to a minute.
        self._test()

    def listen_anew(self) -> None:
        """Connect again. The server that we beat to does not see our beacon: our connection is gone, or it leads to a
        server that is not the primary any more, sends nothing, and would never be asked to write."""
        self._session.hang_up()

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _hear(self, connection: Connection) -> None:
        # For notifications that come while this connection takes the beacon.
        connection.add_notify_handler(
            lambda notification: self._take(notification.channel, notification.payload)
        )
        while True:
            await readable(
                connection, max(0.0, self._test_at - time.monotonic()) if self._heard else LOOK_SECONDS
            )
            for notification in received(connection):
                self._take(notification.relname.decode(), notification.extra.decode())
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
        """Report that notifications do not arrive, if our own ring was sent and did not come; ask again."""
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
            return  # another id meanwhile: it gets its own beacon, and this one is released
        # Only now may the row name the beacon: one that is not held yet would look like one that is gone.
        self._beacon = beacon
        self._calls.beacon_changed(beacon)

    def _drop_beacon(self) -> None:
        self._heard = False
        self._calls.hears(False)
        if self._beacon is not None:
            self._beacon = None
            self._calls.beacon_changed(None)


async def readable(connection: Connection, seconds: float) -> None:
    """Wait until something comes from the server, at most for so long. Waits on the socket itself: the driver's own
    wait wakes ten times a second, and takes longer to return."""
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
    """Return the notifications that have come. Raises if the connection broke."""
    connection.pgconn.consume_input()
    # Ends: each call removes one.
    while (notification := connection.pgconn.notifies()) is not None:
        yield notification


async def listen(connection: Connection) -> None:
    await connection.execute(LISTEN)
    await connection.execute(LISTEN_WORKERS)
