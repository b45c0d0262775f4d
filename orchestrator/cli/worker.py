"""`orchestrator worker`: run tasks in this process until told to stop."""

import asyncio
import os
import signal
import sys

import click

from orchestrator import observe
from orchestrator.cli.load import load_app
from orchestrator.cli.told import told
from orchestrator.worker import Worker

# The handlers of too many tasks went on after their timeouts (`leaked_threads_max`): stopped cleanly, to be started
# anew. EX_TEMPFAIL of sysexits.h: not a failure, but come again.
WORN_OUT = 75


@click.command()
@click.argument("app")
@click.option("--url", help="The database; else what APP was made with, else ORCHESTRATOR_DATABASE_URL.")
@click.option(
    "-q",
    "--queues",
    help="Queues to serve, separated by commas.  [default: those of APP's tasks, and default]",
)
@click.option("-c", "--concurrency", type=click.IntRange(min=1), help="Tasks at once.  [default: 20]")
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
def worker(
    app: str,
    url: str | None,
    queues: str | None,
    concurrency: int | None,
    grace: float | None,
    log_level: str,
    *,
    until_empty: bool,
) -> None:
    """Run the tasks of APP (MODULE:APP, as in shop.jobs:app).

    The first SIGTERM or Ctrl-C stops claiming and lets running tasks finish; the second gives them back at once.
    """
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
    code = asyncio.run(serve(made))
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


async def serve(made: Worker) -> int:
    """Run a worker that stops on signals; return the exit code."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, made.stop)
    code = 0
    try:
        await made.run()
    except Exception as error:
        if not made.left_behind:
            raise
        code = told(error)
    if made.worn_out:
        code = code or WORN_OUT
    if made.left_behind:
        # Handlers that ignored their timeout: asyncio.run would wait for the coroutines, the interpreter for the
        # threads, for ever.
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)
    return code
