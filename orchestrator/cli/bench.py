"""`orchestrator bench`: measure Orchestrator on a server, and compare with a plain loop on the same server."""

import difflib

import click

from orchestrator import bench as measuring
from orchestrator.bench.json_report import JsonReport
from orchestrator.bench.result import Measure
from orchestrator.bench.screen import Screen
from orchestrator.task.duration import shown

NAMES = {measure.name: measure for measure in measuring.MEASURES}


@click.command()
@click.option("--url", help="A database on the server to measure. Default: a temporary server.")
@click.option("--quick", "size", flag_value="quick", help="Rough figures in under a minute.")
@click.option("--full", "size", flag_value="full", help="Millions of rows, minutes of load. Takes an hour.")
@click.option("--only", metavar="NAME,…", help="Run only these measures.")
@click.option("--list", "listing", is_flag=True, help="List the measures, and run none.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def bench(url: str | None, size: str | None, only: str | None, *, listing: bool, as_json: bool) -> None:
    """Measure speed and cost, and compare with a plain loop.

    It creates a new database on the server of --url and drops it at the end, also after Ctrl-C. The role must be
    allowed to create databases. Without --url it starts a server in a temporary folder (needs
    pg-orchestrator[embedded]). It does not read ORCHESTRATOR_DATABASE_URL.
    """
    if listing:
        width = max(map(len, NAMES))
        for measure in NAMES.values():
            click.echo(f"{measure.name:<{width}}  {measure.about}")
        return
    request = measuring.Run(measures=chosen(only), sizes=measuring.SIZES[size or "usual"], url=url)
    reporter = JsonReport() if as_json else Screen()
    try:
        status = measuring.run(request, reporter)
    finally:
        reporter.fail()
    raise click.exceptions.Exit(status)


def chosen(only: str | None) -> list[Measure]:
    """Return the named measures, in the order of the bench; all of them without --only."""
    if only is None:
        return list(NAMES.values())
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("no measure is named; --list names them", param_hint="--only")
    for name in names:
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
            advice = f"did you mean {close[0]}?" if close else "--list names them"
            raise click.BadParameter(f"there is no measure {shown(name)}; {advice}", param_hint="--only")
    return [measure for name, measure in NAMES.items() if name in names]
