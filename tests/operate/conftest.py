"""An application whose workers notice things quickly."""

import pytest


@pytest.fixture
def app_settings() -> dict[str, float]:
    """Quick to notice things."""
    return {"poll_seconds": 0.2, "heartbeat_seconds": 0.2, "concurrency": 2}
