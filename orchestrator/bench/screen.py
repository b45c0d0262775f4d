"""The output for people: a line for each result, with a bar for its ratio and notes below it.

The width of the terminal fixes the widths of the columns, so lines can be shown one by one. A terminal with fewer than
76 columns shows no costs and no bar.
"""

import sys
import time

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.bench.formats import cpu, measured, number, short
from orchestrator.bench.result import Failed, Goal, Measure, Result, Skipped, cost
from orchestrator.bench.system_info import SystemInfo

WIDE = 76
BAR = 8
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEAVES_NOTHING = "The scratch database is dropped."


class Screen:
    """A terminal, or a file with the same text."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._began = time.monotonic()

    def begin(self, setting: SystemInfo) -> None:
        """Show the server, the machine and the headings."""
        off = [name for name in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
               if setting.server_settings.get(name) == "off"]  # fmt: skip
        words = f"PostgreSQL {setting.server_version}, {setting.cores} cores, {setting.processor}"
        self._say(words + (f"; {', '.join(off)} off" if off else ""))
        self._say(f"{setting.at}, sizes: {setting.sizes}\n")
        heading = ["", "ours", "floor", "ratio"]
        self._row([*heading, "", "CPU w+s", "WAL"] if self._wide else heading, style="bold")

    def doing(self, text: str) -> None:
        """Show the current step until there is a result; at a terminal only."""
        if self._status is not None:
            self._status.start()
            self._status.update(text)

    def result(self, measure: Measure, result: Result | Skipped | Failed) -> None:
        """Show a line."""
        match result:
            case Skipped():
                self._say(f"{result.line}: skipped, {result.reason}")
            case Failed():
                self._say(f"{result.line}: FAILED, {result.reason}")
            case Result():
                self._row(cells(result, wide=self._wide))
                if notes := "; ".join(noted(result)):
                    self._console.print(Text(f"  {notes}", style="dim"))

    def end(self) -> None:
        """Explain the columns."""
        self._stop()
        self._say(
            "\nRatio: our median divided by the floor's; ✗ marks a missed goal. CPU w+s: seconds of our processes "
            "and of the server for 10,000 tasks. WAL: bytes per task.\n"
            f"{time.monotonic() - self._began:.0f} s. {LEAVES_NOTHING}"
        )

    def interrupted(self) -> None:
        """Say that the run was interrupted."""
        self._stop()
        self._say(f"Interrupted. {LEAVES_NOTHING}")

    def fail(self) -> None:
        """Stop the progress display before an error is printed."""
        self._stop()

    @property
    def _wide(self) -> bool:
        return self._console.width >= WIDE

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _say(self, text: str) -> None:
        self._console.print(text)

    def _row(self, texts: list[str], style: str = "") -> None:
        # 9 + 9 + 6 + 8 + 10 + 6, six gaps; the name gets the rest.
        widths = [0, 9, 9, 6, BAR, 10, 6] if self._wide else [0, 8, 8, 6]
        name = max(10, self._console.width - sum(widths) - len(widths) + 1)
        grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for n, width in enumerate([min(name, 28), *widths[1:]]):
            grid.add_column(width=width, justify="left" if n in (0, 4) else "right", no_wrap=n > 0)
        grid.add_row(*texts, style=style)
        self._console.print(grid)


def cells(result: Result, *, wide: bool) -> list[str]:
    """Return the texts of a line."""
    floor, ratio = result.floor_figure, result.ratio
    mark = "✗" if result.missed() else ""
    shown = [
        result.line,
        measured(result.figure, result.unit),
        "" if floor is None else measured(floor, result.unit),
        f"{mark}{ratio:.2f}" if ratio is not None else mark,
    ]
    if wide:
        paid = cost(result.ours, result.tasks)
        seconds = [cpu(paid.client_seconds), cpu(paid.server_seconds)]
        known = any(r.spent for r in result.ours)
        shown += [bar(ratio), "+".join(seconds) if known else "", number(paid.wal_bytes) if known else ""]
    return shown


def noted(result: Result) -> list[str]:
    """Return the details and the missed goals."""
    details = [f"{name} {short(value)}" for name, value in result.details.items()]
    return details + [f"goal: {named(goal)}" for goal in result.missed()]


def named(goal: Goal) -> str:
    bounds = [f"≥ {short(goal.least)}" if goal.least is not None else "",
              f"≤ {short(goal.most)}" if goal.most is not None else ""]  # fmt: skip
    return f"{goal.of} {' '.join(filter(None, bounds))}"


def bar(ratio: float | None) -> str:
    """Draw a ratio. The full width is a ratio of 2."""
    if ratio is None:
        return ""
    eighths = round(min(ratio, 2.0) / 2 * BAR * 8)
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def on_standard_error() -> Console:
    """Return a console for the progress. The document goes to standard output."""
    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
