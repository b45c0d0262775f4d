"""A few duties on one connection, each at its interval. A slow duty in one group does not delay another group."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestrator import events
from orchestrator.lead.fence import Leadership, TermOver, fenced
from orchestrator.postgres import transient_errors
from orchestrator.postgres.reconnect import NotNow
from orchestrator.postgres.thread_connection import ANSWER_SECONDS, ThreadConnection

# The least wait after a failure: a duty that fails at once must not fail a thousand times a second.
FAILED_WAIT_SECONDS = 0.5


def always(_connection: psycopg.Connection[Any]) -> bool:
    """The default of `worth`: there may always be something to do."""
    return True


def never() -> float:
    """The default of `soon`: no look before the next turn."""
    return math.inf


@dataclass(frozen=True, slots=True)
class Duty:
    """One maintenance job of the leader, in bounded rounds. `work` returns whether to call it again at once. `worth`
    first looks whether there is anything to do; it writes nothing, so it needs no fence: one statement instead of five.
    `share`: the largest part of the time that the duty may take; a costly duty runs less often."""

    name: str
    every_seconds: float
    work: Callable[[psycopg.Connection[Any]], bool]
    worth: Callable[[psycopg.Connection[Any]], bool] = always
    share: float = 1.0
    soon: Callable[[], float] = never  # in how many seconds to look again, before the next turn
    rest_seconds: float = 0.0  # how much later the next turn may come while the leader is at rest
    delay_seconds: float = 0.0  # from the beginning of a term


class DutyGroup:
    """The duties of a group take turns: a duty that always has more to do does not keep the others waiting."""

    def __init__(
        self,
        line: ThreadConnection,
        duties: Sequence[Duty],
        *,
        limit_seconds: float,
        rests: Callable[[], bool] = lambda: False,
    ) -> None:
        self._line = line
        self._limit_seconds = limit_seconds
        self._rests = rests
        # When each is due, and how much later if the leader still rests then.
        self._due = [(0.0, 0.0, duty) for duty in duties]

    def begin(self) -> None:
        """Begin a term: each duty is due."""
        now = time.monotonic()
        self._due = [(now + duty.delay_seconds, 0.0, duty) for _, _, duty in self._due]

    def step(self, leadership: Leadership) -> float:
        """Do the duty that has been due for longest, if one is due; return in how many seconds to call again.

        Raises TermOver when the term is over. Any other error of a duty becomes an event, and ends its turn.
        """
        rests = self._rests()
        at, duty = min(((at + rest if rests else at, duty) for at, rest, duty in self._due), key=due_at)
        now = time.monotonic()
        if at > now:
            return at - now
        wait_seconds, was_needed = self._perform(duty, leadership)
        # It goes behind the others that are due, even if it has more to do at once. It rests only after a turn at rest
        # that found nothing to do: what was in its way, or happened just before, is seen first.
        rest_seconds = 0.0 if was_needed or not rests else duty.rest_seconds
        after = (time.monotonic() + wait_seconds, rest_seconds, duty)
        self._due = [after if entry[2] is duty else entry for entry in self._due]
        return 0.0

    def look(self) -> None:
        """Let the duties look, without acting. Some act only on what they see for a while: that time begins now."""
        try:
            connection = self._line.open()
            with self._line.within(ANSWER_SECONDS):
                for _, _, duty in self._due:
                    duty.worth(connection)
        except Exception as error:
            # Without this look the leader only takes longer to see these things.
            self._line.failed(error)

    def close(self) -> None:
        """Close the connection; the next step opens another."""
        self._line.close()

    def _perform(self, duty: Duty, leadership: Leadership) -> tuple[float, bool]:
        """Do it. Return in how many seconds its next turn is, and whether it had something to do, or could not tell."""
        began = time.monotonic()
        try:
            connection = self._line.open()
            # The server ends the transaction after the limit. If the server does not answer at all, we end it.
            with self._line.within(self._limit_seconds + ANSWER_SECONDS):
                is_worth = duty.worth(connection)
                more = is_worth and self._do(duty, connection, leadership)
        except TermOver:
            raise
        except NotNow:
            return FAILED_WAIT_SECONDS, True
        except transient_errors.IN_THE_WAY as error:
            events.emit(events.DutyPutOff(duty.name, transient_errors.reason(error)))
            return max(FAILED_WAIT_SECONDS, duty.every_seconds), True
        except Exception as error:
            self._line.failed(error)
            # Always an event with the duty's name, also when the connection reports the error.
            events.emit(events.DutyFailed(duty.name, type(error).__name__, transient_errors.reason(error)))
            return max(FAILED_WAIT_SECONDS, duty.every_seconds), True
        pause_seconds = (time.monotonic() - began) * (1 / duty.share - 1)
        wait_seconds = 0.0 if more else max(min(duty.every_seconds, duty.soon()), pause_seconds)
        return wait_seconds, more or (is_worth and duty.worth is not always)

    def _do(self, duty: Duty, connection: psycopg.Connection[Any], leadership: Leadership) -> bool:
        with events.when_done(), fenced(connection, leadership, limit_seconds=self._limit_seconds):
            return duty.work(connection)


def due_at(entry: tuple[float, Duty]) -> float:
    return entry[0]
