"""What the demo shows: steps, a bar that moves, and the figures. Plain lines where there is no terminal."""

import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from orchestrator.demo import load, tasks
from orchestrator.demo.figures import Figures, Standing
from orchestrator.postgres import statement

WORTH_TRYING = statement.load(__file__, "suggestions.sql").decode()
PLAIN_EVERY_SECONDS = 1.0
WIDTH_EXPLAINED = 76


class Gauge(Protocol):
    """Takes how far it is, and shows it."""

    def __call__(self, standing: Standing) -> None: ...


class Screen:
    """Where the demo is shown."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        """Say what begins now."""
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def say(self, text: str = "") -> None:
        """Say anything."""
        self._console.print(text)

    @contextmanager
    def gauge(self, total: int) -> Iterator[Gauge]:
        """Show how far it is, for the block: a bar at a terminal, else a line a second."""
        if not self._console.is_terminal:
            yield self._lines(total)
            return
        columns = (TextColumn("        "), BarColumn(bar_width=30), MofNCompleteColumn())
        # Drawn by us when there is news: no thread that has to be stopped.
        bar = Progress(*columns, TextColumn("{task.description}"), console=self._console, auto_refresh=False)
        with bar:
            task = bar.add_task("", total=total)

            def show(standing: Standing) -> None:
                bar.update(task, completed=standing.finished, description=waiting(standing), refresh=True)

            yield show

    def result(self, figures: Figures, folder: Path, log: Path) -> None:
        """Show what came of it, and what to try next."""
        self.say()
        self._console.print(table(figures, width=self._console.width), soft_wrap=False)
        self.say(f"\n{measured(figures)}\n")
        self.say(
            f"See for yourself; this starts the server again, for as long as psql is open:\n\n{psql(folder)}"
        )
        if figures.dead_letter_id is not None:
            _, _, statements = WORTH_TRYING.partition("\n\n")
            self.say(f"\n{statements.replace(':id', str(figures.dead_letter_id)).rstrip()}")
        again = f"{own_command()} worker orchestrator.demo.tasks:app --until-empty --url {address(folder)}"
        self.say(f"\nWhat is requeued waits for a worker:\n\n{again}\n\nThe workers' log is {near(log)}.")

    def _lines(self, total: int) -> Gauge:
        next_at = 0.0

        def show(standing: Standing) -> None:
            nonlocal next_at
            done = standing.finished == total
            if time.monotonic() >= next_at or (done and next_at < math.inf):
                next_at = math.inf if done else time.monotonic() + PLAIN_EVERY_SECONDS
                self.step(f"{standing.finished:,} of {total:,} tasks finished{waiting(standing, ': ')}")

        return show


def table(figures: Figures, *, width: int) -> Table:
    """Show the tallies, a row a type; what is not finished has a column only where there is any."""
    meanings = {task.name: task.__doc__ or "" for task in tasks.TASKS}
    rows = [
        (t.type, meanings[t.type], [t.tasks, t.completed, t.dead_letters, t.failed_attempts, t.others])
        for t in figures.tallies
    ]
    totals = [sum(column) for column in zip(*(numbers for *_, numbers in rows), strict=True)]
    names = ["Type", "Its handler …"] if width >= WIDTH_EXPLAINED else ["Type"]
    headings = ["Tasks", "Completed", "Dead\nletters", "Failed\nattempts", "Not\nfinished"]
    shown = len(headings) if totals[-1] else len(headings) - 1
    made = Table(*names, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings[:shown]:
        made.add_column(heading, justify="right")
    for kind, meaning, numbers in [*rows, ("all", "", totals)]:
        words = [kind, meaning][: len(names)]
        last = kind == rows[-1][0]
        made.add_row(*words, *(f"{number:,}" for number in numbers[:shown]), end_section=last)
    return made


def measured(figures: Figures) -> str:
    """Say what was measured, and how."""
    p50, p95 = 1000 * figures.pickup_p50_seconds, 1000 * figures.pickup_p95_seconds
    return (
        f"Pickup: p50 {p50:.1f} ms, p95 {p95:.1f} ms, from the arrival of an enqueue at the server (created_at), its\n"
        f"commit included, to the start of the handler (started_at): {figures.probes} probes, one every "
        f"{1000 * load.PROBE_EVERY_SECONDS:.0f} ms, once\nno task waited for a worker any more.\n"
        f"Throughput: {figures.tasks_per_second:,.0f} tasks/s: {figures.fast:,} times demo.fast in "
        f"{figures.fast_seconds:.1f} s, from the first start to the last end, with\nthe others among them."
    )


def waiting(standing: Standing, before: str = "") -> str:
    """Name what is not finished, as far as there is any."""
    parts = {"ready": standing.ready, "running": standing.held, "not yet due": standing.scheduled}
    named = ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    return f"{before}{named}" if named else ""


def psql(folder: Path) -> str:
    """Return the command that opens psql on the demo's database."""
    return f"{own_command()} sql --url {address(folder)}"


def address(folder: Path) -> str:
    return shlex.quote(f"embedded:{near(folder)}")


def own_command() -> str:
    """Return what to type for this very program: its name, if the shell would find it."""
    script = Path(sys.executable).with_name("orchestrator")
    found = shutil.which("orchestrator")
    if found is not None and script.exists() and os.path.samefile(found, script):
        return "orchestrator"
    return (
        shlex.quote(str(near(script)))
        if script.exists()
        else f"{shlex.quote(sys.executable)} -m orchestrator"
    )


def near(path: Path) -> Path:
    """Name a path as seen from here, if it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
