"""`orchestrator worker`: run tasks in this process until it is stopped, or keep several worker processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click
from click.core import ParameterSource

from orchestrator import Orchestrator, observe
from orchestrator.cli.error_messages import report_error
from orchestrator.cli.load_application import load_app
from orchestrator.config import METRICS_HOST, PORT_MAX
from orchestrator.errors import ConfigError
from orchestrator.processes import exit_codes, loop
from orchestrator.processes.parent import Parent
from orchestrator.processes.parent_connection import ParentConnection
from orchestrator.processes.watchdog import Watchdog, ignore_signals, ignore_signals_at_exit
from orchestrator.worker import Worker

PROCESSES_MAX = 256


@click.command()
@click.argument("app")
@click.option("--url", help="The database. Default: the URL in APP, else ORCHESTRATOR_DATABASE_URL.")
@click.option(
    "-q",
    "--queues",
    help="Queues to serve, separated by commas.  [default: those of APP's tasks, and default]",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(min=1),
    help="Tasks at once in each process.  [default: 20]",
)
@click.option(
    "-p",
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    show_default=True,
    envvar="ORCHESTRATOR_PROCESSES",
    help="Worker processes. With two or more, this process only supervises them. Also: ORCHESTRATOR_PROCESSES.",
)
@click.option("--until-empty", is_flag=True, help="End when no task is ready, held or waiting for a retry.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    help="Seconds to let running tasks finish at shutdown.  [default: 30]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The lowest level to log on standard error. Successes are logged at debug.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, PORT_MAX),
    envvar=["ORCHESTRATOR_WORKER_METRICS_PORT", "ORCHESTRATOR_METRICS_PORT"],
    help="Serve /metrics, /healthz and /readyz on this port, for all processes together. 0: any free port.",
)
@click.option(
    "--metrics-host",
    envvar=["ORCHESTRATOR_WORKER_METRICS_HOST", "ORCHESTRATOR_METRICS_HOST"],
    help="The address for --metrics-port.  [default: 127.0.0.1, this host only]",
)
@click.option(
    "--parent-connection",
    type=int,
    hidden=True,
    allow_from_autoenv=False,
    help="The descriptor of the connection to the parent.",
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
    metrics_port: int | None,
    metrics_host: str | None,
    parent_connection: int | None,
    *,
    until_empty: bool,
) -> None:
    """Run the tasks of APP (MODULE:APP, as in shop.jobs:app).

    The first SIGTERM or Ctrl-C stops claiming and lets running tasks finish. The second gives them back at once.

    With --processes each process is a worker. A worker that dies is started again; a drained worker is not.

    \b
    Exit status:
      0      stopped, drained by an operator, or (--until-empty) done
      1      failed; the message says why
      2      the command line was wrong
      75     too many handlers ignored their timeout: start it again
             (--processes does this itself)
      128+n  with --processes: a worker was killed by signal n, and
             was not replaced
    """
    names = named(queues)
    if processes > 1:
        observe.follow(minimum=log_level)
        context.exit(keep(context, processes, metrics_host, metrics_port))
    line = held(parent_connection)
    application = loaded(app)
    observe.follow(minimum=log_level)
    made = application.worker(
        queues=names,
        concurrency=concurrency,
        until_empty=until_empty,
        database_url=url,
        grace_seconds=grace,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
    )
    code = run(made, line, metrics_port=metrics_port)
    application.close()
    context.exit(code)


def named(queues: str | None) -> tuple[str, ...] | None:
    """Read the names of --queues. An empty list is an error: it does not mean all queues."""
    if queues is None:
        return None
    names = tuple(name.strip() for name in queues.split(",") if name.strip())
    if not names:
        raise click.BadParameter("no queue is named; write for example mail,default", param_hint="--queues")
    return names


def keep(context: click.Context, processes: int, host: str | None, port: int | None) -> int:
    """Keep several worker processes, serve their metrics, and return the exit code."""
    with serving_for_all(host, port) as metrics:
        code = Parent(lambda line: again(context, line), processes=processes, metrics=metrics).run()
        ignore_signals()
        return code


def loaded(app: str) -> Orchestrator:
    """Load the application of a worker. No stop signal then kills the process after a clean stop."""
    ignore_signals_at_exit()
    return load_app(app)


def held(descriptor: int | None) -> ParentConnection | None:
    """Take the connection to the parent, if there is one."""
    if descriptor is None:
        return None
    line = ParentConnection(descriptor)
    line.hold()
    return line


@contextmanager
def serving_for_all(host: str | None, port: int | None) -> Iterator[observe.Processes | None]:
    """Serve the metrics of several processes and of their parent, within the block."""
    if port is None:
        yield None
        return
    observe.count()
    numbers = observe.Processes(partial(observe.snapshot, ours=True))
    server = observe.Server(host or METRICS_HOST, port, observe.multiprocess_pages(numbers))
    server.start()
    try:
        yield numbers
    finally:
        server.stop()


def served_by_parent(made: Worker, port: int | None) -> None:
    """Leave the metrics to the parent. The parent does not read the application's settings, so it needs the flag."""
    if made.config.metrics_port is not None and port is None:
        raise ConfigError(
            "metrics_port is set in the application, and with --processes it is the parent that serves: "
            "name it with --metrics-port or ORCHESTRATOR_METRICS_PORT"
        )
    made.serves = False


def again(context: click.Context, line: int) -> list[str]:
    """Return the command line of a child: the arguments of this process, for one process, connected to it.

    The child reads variables itself, from the same environment.
    """
    # -m puts the current folder first on the path, before Python's own modules. -P prevents that if this process does
    # not have the folder on its path either: an email.py of the application must not replace Python's.
    safe = [] if os.getcwd() in sys.path else ["-P"]
    words = [
        sys.executable,
        *safe,
        "-m",
        "orchestrator",
        "worker",
        "--processes=1",
        f"--parent-connection={line}",
    ]
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and given and name != "processes":
            words.append(option.opts[-1] if option.is_flag else f"{option.opts[-1]}={context.params[name]}")
    return [*words, "--", context.params["app"]]


def run(made: Worker, line: ParentConnection | None = None, *, metrics_port: int | None = None) -> int:
    """Run a worker that stops on a signal, or when its parent asks for it or is gone. Return the exit code."""
    if line is not None:
        served_by_parent(made, metrics_port)
    with Watchdog(made) as watchdog:
        return loop.run(serve(made, line, watchdog))


async def serve(made: Worker, line: ParentConnection | None, watchdog: Watchdog) -> int:
    """The same, on the loop."""
    grace_seconds = made.config.grace_seconds
    if line is None:
        watchdog.obey(made.stop, grace_seconds=grace_seconds, hurries=True)
    else:
        watchdog.obey(partial(line.stop, made), grace_seconds=grace_seconds, hurries=False)
        line.follow(made, sends_metrics=made.config.metrics_port is not None)
    code = 0
    try:
        await reported(made, line)
    except Exception as error:
        if not made.left_behind:
            raise
        code = report_error(error)
    if made.worn_out:
        code = code or exit_codes.WORN_OUT_CODE
    if line is not None and code in exit_codes.CLEAN:
        line.announce_stop()
    if made.left_behind:
        # Handlers have ignored their timeout. asyncio.run would wait for their coroutines, and the interpreter for
        # their threads, for ever.
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)
    return code


async def reported(made: Worker, line: ParentConnection | None) -> None:
    """Run a worker. At any end of it, its parent gets its last metrics."""
    try:
        await made.run()
    finally:
        if line is not None:
            line.last_word()
