"""The demo's output: steps, a progress bar and the figures; plain lines without a terminal."""

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
from orchestrator.demo.figures import Figures, TaskProgress
from orchestrator.postgres import statement

WORTH_TRYING = statement.load(__file__, "suggestions.sql").decode()
PLAIN_EVERY_SECONDS = 1.0
WIDTH_EXPLAINED = 76


class Gauge(Protocol):
    """Shows the progress."""

    def __call__(self, progress: TaskProgress) -> None: ...


class Screen:
    """Writes the demo's output."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        """Show the step that begins now."""
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def say(self, text: str = "") -> None:
        """Show a text."""
        self._console.print(text)

    @contextmanager
    def gauge(self, total: int) -> Iterator[Gauge]:
        """Show the progress during a block: a bar at a terminal, else one line per second."""
        if not self._console.is_terminal:
            yield self._lines(total)
            return
        columns = (TextColumn("        "), BarColumn(bar_width=30), MofNCompleteColumn())
        # No automatic refresh: that would need a thread, and the thread would have to be stopped.
        bar = Progress(*columns, TextColumn("{task.description}"), console=self._console, auto_refresh=False)
        with bar:
            task = bar.add_task("", total=total)

            def show(progress: TaskProgress) -> None:
                bar.update(task, completed=progress.finished, description=waiting(progress), refresh=True)

            yield show

    def result(self, figures: Figures, folder: Path, log: Path) -> None:
        """Show the figures and what to try next."""
        self.say()
        self._console.print(table(figures, width=self._console.width), soft_wrap=False)
        self.say(f"\n{measured(figures)}\n")
        self.say(f"Look at the tables; this starts the server again until psql ends:\n\n{psql(folder)}")
        if figures.dead_letter_id is not None:
            _, _, statements = WORTH_TRYING.partition("\n\n")
            self.say(f"\n{statements.replace(':id', str(figures.dead_letter_id)).rstrip()}")
        again = f"{own_command()} worker orchestrator.demo.tasks:app --until-empty --url {address(folder)}"
        self.say(f"\nRun the requeued tasks with a worker:\n\n{again}\n\nThe workers' log is {near(log)}.")

    def _lines(self, total: int) -> Gauge:
        next_at = 0.0

        def show(progress: TaskProgress) -> None:
            nonlocal next_at
            done = progress.finished == total
            if time.monotonic() >= next_at or (done and next_at < math.inf):
                next_at = math.inf if done else time.monotonic() + PLAIN_EVERY_SECONDS
                self.step(f"{progress.finished:,} of {total:,} tasks finished{waiting(progress, ': ')}")

        return show


def table(figures: Figures, *, width: int) -> Table:
    """Show the tallies, one row per type. There is a column for unfinished tasks only if there are any."""
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
    """Describe the measured values and how they were measured."""
    p50, p95 = 1000 * figures.pickup_p50_seconds, 1000 * figures.pickup_p95_seconds
    return (
        f"Pickup: p50 {p50:.1f} ms, p95 {p95:.1f} ms, from the arrival of an enqueue at the server (created_at) to\n"
        f"the start of the handler (started_at), the commit included. Measured with {figures.probes} probes, one every "
        f"{1000 * load.PROBE_EVERY_SECONDS:.0f} ms,\nwhile no other task waited for a worker.\n"
        f"Throughput: {figures.tasks_per_second:,.0f} tasks/s: {figures.fast:,} times demo.fast in "
        f"{figures.fast_seconds:.1f} s, from the first start to the last end.\nThe other tasks ran among them."
    )


def waiting(progress: TaskProgress, before: str = "") -> str:
    """Name the numbers of unfinished tasks that are not 0."""
    parts = {"ready": progress.ready, "running": progress.held, "not yet due": progress.scheduled}
    named = ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    return f"{before}{named}" if named else ""


def psql(folder: Path) -> str:
    """Return the command that opens psql on the demo's database."""
    return f"{own_command()} sql --url {address(folder)}"


def address(folder: Path) -> str:
    return shlex.quote(f"embedded:{near(folder)}")


def own_command() -> str:
    """Return the command that starts this program: its short name if the shell finds it by that."""
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
    """Return a path relative to the current folder if it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
