"""An application whose workers notice things quickly, and the table of the handlers' own transactions."""

import psycopg
import pytest

from tests.worker.ledger import TABLE


@pytest.fixture
def app_settings() -> dict[str, float]:
    """Quick to notice things."""
    return {"poll_seconds": 1.0, "heartbeat_seconds": 0.5, "grace_seconds": 10.0}


@pytest.fixture
def ledger(connection: psycopg.Connection) -> None:
    """The table of the user's own."""
    connection.execute(TABLE)
