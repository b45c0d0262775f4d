"""An application with a few tasks, on the test's own database."""

from collections.abc import Iterator

import pytest

from orchestrator import Orchestrator
from tests.testing.tasks import Shop


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    """A shop on the test's database; it is closed afterwards."""
    application = Orchestrator(database_url)
    yield Shop(application)
    application.close()
