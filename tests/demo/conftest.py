"""A working folder, in memory if there is room, and a check that no process is left in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.demo.left_over import assert_nothing_left


@pytest.fixture
def here() -> Iterator[Path]:
    """The current folder of the commands under test."""
    with servers.temporary_directory() as folder:
        yield folder
        assert_nothing_left(folder)
