"""Listen on a connection of its own, and call back for each ring; come back whenever the connection breaks.

Needs a direct connection: through PgBouncer in transaction mode LISTEN succeeds and delivers nothing, and then
the worker's poll is all there is.
"""

from collections.abc import Callable

from orchestrator.postgres import statement
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
        await self._session.run(self._listen, give_up_on=lambda _error: False)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _listen(self, connection: Connection) -> None:
        await connection.execute(LISTEN)
        # What was sent while nobody listened is lost: look once.
        self._heard()
        async for notification in connection.notifies():
            if notification.payload in self._queues:
                self._heard()
