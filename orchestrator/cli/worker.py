"""`orchestrator worker`: run tasks in this process until told to stop, or keep several processes that do."""

import asyncio
import os
import sys

import click
from click.core import ParameterSource

from orchestrator import observe
from orchestrator.cli.load import load_app
from orchestrator.cli.told import told
from orchestrator.worker import Worker, codes, loop
from orchestrator.worker.parent import Parent
from orchestrator.worker.tether import Tether

PROCESSES_MAX = 256


@click.command()
@click.argument("app")
@click.option("--url", help="The database; else what APP was made with, else ORCHESTRATOR_DATABASE_URL.")
@click.option(
    "-q",
    "--queues",
    help="Queues to serve, separated by commas.  [default: those of APP's tasks, and default]",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(min=1),
    help="Tasks at once, in each process.  [default: 20]",
)
@click.option(
    "-p",
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    show_default=True,
    envvar="ORCHESTRATOR_PROCESSES",
    help="Worker processes; from two on this one only keeps them. Else ORCHESTRATOR_PROCESSES.",
)
@click.option(
    "--until-empty", is_flag=True, help="End when the queues hold nothing ready, held or waiting for a retry."
)
@click.option(
    "--grace", type=click.FloatRange(min=0), help="Seconds running tasks get at shutdown.  [default: 30]"
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least level of lines on standard error; successes are debug.",
)
@click.option(
    "--tether",
    type=int,
    hidden=True,
    allow_from_autoenv=False,
    help="The descriptor of the line to the parent.",
)
@click.pass_context
def worker(
    context: click.Context,
    app: str,
    url: str | None,
    queues: str | None,
    concurrency: int | None,
    processes: int,
    grace: float | None,
    log_level: str,
    tether: int | None,
    *,
    until_empty: bool,
) -> None:
    """Run the tasks of APP (MODULE:APP, as in shop.jobs:app).

    The first SIGTERM or Ctrl-C stops claiming and lets running tasks finish; the second gives them back at once.

    With --processes each is a worker of its own. One that dies is started again; one that was drained by hand is not.

    \b
    Exit status:
      0      told to stop, drained by hand, or (--until-empty) done
      1      it could not be done, and the message says why
      2      the command line was wrong
      75     too many handlers ignored their timeout: start it again
             (with --processes this is done here)
      128+n  with --processes: a worker was killed by signal n, and
             none has taken its place
    """
    if processes > 1:
        named(queues)
        observe.follow(minimum=log_level)
        context.exit(Parent(lambda line: again(context, line), processes=processes).run())
    line = None if tether is None else Tether(tether)
    if line is not None:
        line.hold()
    application = load_app(app)
    observe.follow(minimum=log_level)
    observe.count()
    made = application.worker(
        queues=named(queues),
        concurrency=concurrency,
        until_empty=until_empty,
        database_url=url,
        grace_seconds=grace,
    )
    code = loop.run(serve(made, line))
    application.close()
    if code:
        sys.exit(code)


def named(queues: str | None) -> tuple[str, ...] | None:
    """Read the names of --queues; an empty list is a slip, not a wish for all."""
    if queues is None:
        return None
    names = tuple(name.strip() for name in queues.split(",") if name.strip())
    if not names:
        raise click.BadParameter("no queue is named; write for example mail,default", param_hint="--queues")
    return names


def again(context: click.Context, line: int) -> list[str]:
    """Return the command line of a child: what was given to this one, for one process, on a tether.

    What was given by variables it finds where this one has found it.
    """
    # The current folder comes first with -m, before Python's own modules. Not if it does not here: an email.py there
    # is an application's business.
    safe = [] if os.getcwd() in sys.path else ["-P"]
    words = [sys.executable, *safe, "-m", "orchestrator", "worker", "--processes=1", f"--tether={line}"]
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and given and name != "processes":
            words.append(option.opts[-1] if option.is_flag else f"{option.opts[-1]}={context.params[name]}")
    return [*words, "--", context.params["app"]]


async def serve(made: Worker, line: Tether | None = None) -> int:
    """Run a worker that stops on signals, or when its parent says so or is gone; return the exit code."""
    if line is None:
        for number in codes.STOPPING:
            asyncio.get_running_loop().add_signal_handler(number, made.stop)
    else:
        line.follow(made)
    code = 0
    try:
        await made.run()
    except Exception as error:
        if not made.left_behind:
            raise
        code = told(error)
    if made.worn_out:
        code = code or codes.WORN_OUT_CODE
    if made.left_behind:
        # Handlers that ignored their timeout: asyncio.run would wait for the coroutines, the interpreter for the
        # threads, for ever.
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)
    return code
