"""Whose loop a worker runs on."""

import asyncio
import sys
from types import SimpleNamespace

import pytest

from orchestrator.worker import loop


class Swift(asyncio.SelectorEventLoop):
    """A loop from elsewhere."""


async def kind() -> type:
    return type(asyncio.get_running_loop())


def test_uvloop_is_used_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """To have installed it is to want it."""
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=Swift))

    assert Swift is loop.run(kind())


@pytest.mark.parametrize("found", [None, SimpleNamespace()], ids=["nothing", "a folder of that name"])
def test_asyncio_is_used_where_it_is_not(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "uvloop", found)

    assert loop.fastest() is None
    assert Swift is not loop.run(kind())
