"""The parent's reaction to the ends of its children: the delay before a replacement, and its own exit code. The
children do nothing but end."""

import sys
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from orchestrator import events
from orchestrator.processes.exit_codes import CLEAN, WORN_OUT_CODE, fault
from orchestrator.processes.parent import Parent
from orchestrator.processes.worker_process import Command, Serving
from orchestrator.task.backoff import Backoff
from tests.worker.running import recorded

SWIFT = Backoff(base_seconds=0.001, cap_seconds=0.004, jitter=0.0)

LINE = "import os, signal, socket, sys; line = socket.socket(fileno=int(sys.argv[1]))\n"
SERVES = LINE + """line.sendall(b'{"grace_seconds": 0, "embedded": null}\\n')\n"""
OBEYS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES + "line.recv(1)\n"


STOPS = """line.sendall(b'{"stopped": true}\\n')\n"""


def ends(code: int) -> str:
    """A child that serves and ends at once, by itself, and cleanly if the code is that of a clean stop."""
    return SERVES + (STOPS if code in CLEAN else "") + f"os._exit({code})"


def each(*programs: str) -> Command:
    """The programs of the children, in the order of their start; the last one is everybody's from there on."""
    left: Iterator[str] = chain(programs[:-1], repeat(programs[-1]))
    return lambda line: [sys.executable, "-I", "-S", "-c", next(left), str(line)]


class Watched(Parent):
    """A parent that is stopped after so many deaths, or when so many children have served."""

    deaths_left: int | None = None
    serving_left: int | None = None

    def note(self, event: events.Event) -> None:
        if isinstance(event, events.ChildDied) and self.deaths_left is not None:
            self.deaths_left -= 1
            if self.deaths_left == 0:
                self.stop()

    async def _note_serving(self, serving: Serving) -> None:
        await super()._note_serving(serving)
        if self.serving_left is not None:
            self.serving_left -= 1
            if self.serving_left == 0:
                self.stop()


def run(
    *programs: str, processes: int = 1, deaths: int | None = None, serving: int | None = None, **options: Any
) -> tuple[int, list[Any]]:
    """Run a parent to its end, or until then; return its exit code, and who died."""

    parent = Watched(each(*programs), processes=processes, **{"backoff": SWIFT, **options})
    parent.deaths_left, parent.serving_left = deaths, serving
    unsubscribe = events.subscribe(parent.note)
    try:
        with recorded(events.ChildDied) as died:
            return parent.run(), died
    finally:
        unsubscribe()


def waits(died: list[Any]) -> list[float | None]:
    return [event.restart_after_seconds for event in died]


def test_a_child_that_dies_again_and_again_is_waited_for_ever_longer() -> None:
    """To a cap; and its last end is the parent's."""
    code, died = run(ends(3), deaths=6)

    assert [0.001, 0.002, 0.004, 0.004, 0.004, 0.004] == waits(died)
    assert (3, {"exit code 3"}) == (code, {event.how for event in died})


def test_a_child_that_has_lived_for_a_while_is_replaced_without_delay() -> None:
    """What it died of was not its start."""
    _, died = run(ends(3), deaths=4, settled_seconds=0.0)

    assert [0.001] * 4 == waits(died)


def test_a_worn_out_child_is_replaced_at_once() -> None:
    """Nothing is wrong, so no wait grows of it, and it is no fault in the end."""
    code, died = run(ends(3), ends(3), ends(WORN_OUT_CODE), ends(3), ends(WORN_OUT_CODE), deaths=6)

    assert [0.001, 0.002, 0.0, 0.001, 0.0, 0.0] == waits(died)
    assert 0 == code


@pytest.mark.parametrize("status", CLEAN)
def test_a_status_of_success_that_was_not_announced_is_a_crash(status: int) -> None:
    """It is waited for as after any other crash, and the parent's own code tells it."""
    code, died = run(SERVES + f"os._exit({status})", deaths=3)

    assert [0.001, 0.002, 0.004] == waits(died)
    assert (1, {f"exit code {status}, without a clean stop"}) == (code, {event.how for event in died})


def test_a_death_is_forgotten_after_a_successful_replacement() -> None:
    """The last end of each place counts."""
    code, died = run(SERVES + "os.kill(os.getpid(), 9)", ends(0))

    assert (0, ["signal 9 (SIGKILL)"]) == (code, [event.how for event in died])


def test_the_first_child_that_never_serves_ends_it_all() -> None:
    """With its code, and nobody else is started."""
    code, died = run("import sys; sys.exit(1)", ends(0), processes=3)

    assert (1, [None]) == (code, waits(died))


def test_a_program_that_cannot_be_started_is_reported() -> None:
    """The first one is the end; a later one is tried again."""
    missing: Command = lambda line: ["/nowhere/python"]  # noqa: E731

    with recorded(events.ChildDied) as died:
        code = Parent(missing, processes=2).run()

    assert (1, [(None, "could not be started: No such file or directory", None)]) == (
        code,
        [(event.pid, event.how, event.restart_after_seconds) for event in died],
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(0, 0, 0), (0, 1, 1), (2, 1, 2), (WORN_OUT_CODE, 0, 0)],
)
def test_the_worst_exit_status_is_the_parents(first: int, second: int, expected: int) -> None:
    """The worst exit status among the children that were asked to stop."""
    programs = [OBEYS + (STOPS if code in CLEAN else "") + f"os._exit({code})" for code in (first, second)]

    code, _ = run(*programs, processes=2, serving=2)

    assert expected == code


def test_a_child_that_does_not_end_is_killed() -> None:
    """Long after its grace. That is a failure, because its tasks must be recovered."""
    with recorded(events.ChildKilled) as killed:
        code, died = run(OBEYS + "signal.pause()", OBEYS + STOPS, processes=2, serving=2, margin_seconds=0.2)

    assert (137, 1, ["signal 9 (SIGKILL)"]) == (code, len(killed), [event.how for event in died])


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, 0), (1, 1), (2, 2), (WORN_OUT_CODE, 0), (-9, 137), (-11, 139), (-15, 0), (-2, 0), (-1, 0)],
)
def test_an_end_has_its_exit_status(status: int, expected: int) -> None:
    """A death by signal n is 128 + n, except for the signals that ask for an end."""
    assert expected == fault(status)
