"""The features of one worker, with their connections."""

from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from orchestrator.feature.companion import Follower
from orchestrator.feature.feature import Feature, Host
from orchestrator.feature.source import OpenSource
from orchestrator.finish import LeaseEnds
from orchestrator.lead import Duty
from orchestrator.postgres.session import Session


class Joined:
    """What all features add to one worker. `session` makes a connection, which opens at its first use."""

    def __init__(self, features: Iterable[Feature], host: Host, *, session: Callable[[str], Session]) -> None:
        joined = [(feature.name, feature.join(host), session(feature.name)) for feature in features]
        self._parts = [parts for _, parts, _ in joined]
        self._sessions = [own for *_, own in joined]
        self.sources = [OpenSource(name, p.source, own) for name, p, own in joined if p.source is not None]
        self.followers = [
            Follower(name, p.companion, own) for name, p, own in joined if p.companion is not None
        ]

    @property
    def urgent(self) -> list[Duty]:
        """The leader's duties whose delay is noticed."""
        return [duty for parts in self._parts for duty in parts.urgent]

    @property
    def housekeeping(self) -> list[Duty]:
        """The leader's duties that can wait."""
        return [duty for parts in self._parts for duty in parts.housekeeping]

    def declare(self, connection: psycopg.Connection[Any]) -> None:
        """Write what the application declares."""
        for parts in self._parts:
            parts.declare(connection)

    def ended(self, ends: LeaseEnds) -> None:
        """Tell the companions of ends of leases that are committed."""
        for follower in self.followers:
            follower.tell(ends)

    async def flush(self) -> None:
        """Wait until the companions have acted on every end that they know of."""
        for follower in self.followers:
            await follower.flush()

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions:
            await session.close()
