"""How long a worker sleeps, and for how long it has asked to be rung meanwhile."""

import asyncio

from orchestrator.worker.rest import LOOKS_SECONDS, Rest


class Sleeps(Rest):
    """Writes down how long it would sleep."""

    def __init__(self) -> None:
        super().__init__(poll_seconds=5.0, impatient=False)
        self.naps: list[float] = []

    async def sleep(self, seconds: float | None = None) -> None:
        """Sleep not at all."""
        assert seconds is not None
        self.naps.append(seconds)


def test_a_sleep_ends_before_what_was_asked_for() -> None:
    """Also when it turns out in between that notifications arrive: after the mark nobody would ring any more."""
    rest = Sleeps()
    rest.hears(False)

    async def sleep_once() -> float:
        assert rest.is_first_look
        asked = rest.ask_seconds()
        rest.hears(True)
        for _ in (*LOOKS_SECONDS, "the long one"):
            rest.next_due(None)
            await rest.rest()
        assert rest.is_first_look
        return asked

    asked = asyncio.run(sleep_once())

    assert sum(rest.naps) < asked
    assert rest.ask_seconds() > 5.0, "the next one is as long as it may be"
