"""`orchestrator doctor`: check the server, and say what to do."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import closing

import click

from orchestrator import claim
from orchestrator.cli.database import STATEMENT_SECONDS, database_option, json_option, settle
from orchestrator.cli.table import ENDLESS, print_json
from orchestrator.config import Config
from orchestrator.observe import printable
from orchestrator.operate import doctor as examining
from orchestrator.operate.doctor import Finding
from orchestrator.postgres import connect, embedded_stop

# The most urgent comes first.
MARKS = {"fail": ("✗", "red"), "warn": ("!", "yellow"), "skipped": ("–", "cyan"), "ok": ("✓", "green")}
ORDER = list(MARKS)


@click.command()
@database_option
@json_option
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
def doctor(url: str | None, *, as_json: bool, strict: bool) -> None:
    """Check the server, the tables and the workers, and say what to do.

    It changes nothing. ✗ failed: act now. ! is a warning. – was skipped: this role lacks the right to check it.
    ✓ is well. The exit status is 1 if a check fails.
    """
    findings = examined(url or Config.load().database_url)
    if as_json:
        print_json(findings)
    else:
        show(findings)
    verdicts = {found.verdict for found in findings}
    if "fail" in verdicts or (strict and "warn" in verdicts):
        raise click.exceptions.Exit(1)


def examined(url: str) -> list[Finding]:
    """Run all checks on a database, with or without our schema."""
    try:
        info = connect.conninfo(url, application_name="orchestrator doctor")
        with closing(connect.open_sync(info)) as connection:
            settle(connection, STATEMENT_SECONDS)
            patient = examining.Examination(connection, lambda: connect.open_sync(info), claim.faults_of_plan)
            return examining.examine(patient)
    finally:
        embedded_stop.leave(url)


def show(findings: Sequence[Finding]) -> None:
    """Print one line for each check, the worst first, and below it what to do."""
    indent = 4 + max(len(found.name) for found in findings)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else ENDLESS
    if width < 2 * indent:
        indent = 4
    for found in sorted(findings, key=lambda found: ORDER.index(found.verdict)):
        mark, colour = MARKS[found.verdict]
        lines = wrapped(f"{found.name:<{indent - 4}}  {found.says}", indent, width)
        click.echo(f"{click.style(mark, fg=colour)} {lines[0][2:]}")
        for line in lines[1:] + wrapped(found.advice or "", indent, width, first=indent):
            click.echo(line)
        # Not wrapped, so that it can be copied.
        for line in (found.statement or "").splitlines():
            click.echo(" " * indent + printable(line))
    counts = {verdict: sum(found.verdict == verdict for found in findings) for verdict in ORDER}
    words = {"fail": "failed", "warn": "to look into", "skipped": "skipped", "ok": "well"}
    click.echo(", ".join(f"{counts[verdict]} {words[verdict]}" for verdict in ORDER if counts[verdict]))


def wrapped(text: str, indent: int, width: int, *, first: int = 2) -> list[str]:
    """Wrap a sentence at the terminal's width, and indent its further lines."""
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )
