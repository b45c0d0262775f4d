"""Listen on a connection of its own, and call back for each ring; come back whenever the connection breaks.

Needs a direct connection: through PgBouncer in transaction mode LISTEN succeeds and delivers nothing, and then
the worker's poll is all there is.
"""

import asyncio
from collections.abc import Callable

from orchestrator.postgres import statement, transient
from orchestrator.postgres.session import Connection, Session

LISTEN = statement.load(__file__, "listen.sql")


class Listener:
    """Hears rings for as long as it runs."""

    def __init__(self, session: Session, *, queues: tuple[str, ...], heard: Callable[[], None]) -> None:
        self._session = session
        self._queues = frozenset(queues)
        self._heard = heard

    async def run(self) -> None:
        """Listen, for ever."""
        while True:
            await self._session.run(listen, give_up_on=lambda _error: False)
            # What was sent while nobody listened is lost: look once.
            self._heard()
            try:
                await self._session.run(self._hear, give_up_on=lambda _error: True)
            except Exception as error:
                if not transient.is_transient(error):
                    raise
                await asyncio.sleep(transient.FIRST_WAIT_SECONDS)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _hear(self, connection: Connection) -> None:
        async for notification in connection.notifies():
            if notification.payload in self._queues:
                self._heard()


async def listen(connection: Connection) -> None:
    await connection.execute(LISTEN)
