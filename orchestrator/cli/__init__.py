"""The command `orchestrator`: translates words into calls, and errors into sentences. Holds no logic.

Exit codes, of every command:

    0      done; a list that is empty is done too
    1      it could not be done, and the message says why: no database, no schema, no right, no such task or queue, a
           check that failed
    2      the command line was wrong, and nothing was tried
    75     a worker has worn out (`worker.exit_codes`): it has stopped cleanly, and whoever started it should start
    another 130    interrupted: Ctrl-C, also while it loads, or no to a question. A worker that runs ends with 0 instead
    141    nobody reads on: `orchestrator … | head -1`
    128+n  a worker with --processes was killed by signal n, and none has taken its place

What is printed for people goes to standard output, what went wrong to standard error, and with --json standard output
holds JSON and nothing else. Every flag has a variable, ORCHESTRATOR_<COMMAND>_<FLAG>; a flag beats it.
"""

import io
import os
import sys

import click

from orchestrator.cli.environment_variables import refuse_slips
from orchestrator.cli.error_messages import INTERRUPTED_CODE, report_error
from orchestrator.cli.group import CommandLine
from orchestrator.cli.lazy_commands import LazyCommands
from orchestrator.config import COMMANDS
from orchestrator.version import __version__


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# No variable: ORCHESTRATOR_VERSION is what a deployment calls the version that it wants.
@click.version_option(__version__, prog_name="orchestrator", allow_from_autoenv=False)
def orchestrator() -> None:
    """Background jobs on the PostgreSQL you already have.

    \b
    Begin with:
      orchestrator demo               see it work, in ten seconds
      orchestrator dev MODULE:APP     run your tasks, on a server that
                                      comes along

    \b
    Then, on your database:
      orchestrator migrate            bring the tables into it
      orchestrator worker MODULE:APP  run tasks

    The database is named by ORCHESTRATOR_DATABASE_URL, or by --url:
    postgresql://user@host:5432/database, or embedded:./pgdata for a
    server that comes along. demo, dev and embedded: need
    pg-orchestrator[embedded].

    Every flag has a variable: ORCHESTRATOR_WORKER_GRACE is that of
    worker --grace.
    """
    refuse_slips(orchestrator, os.environ)


orchestrator.commands = LazyCommands(COMMANDS)


def main() -> None:
    """Run the command; what goes wrong is said in a sentence, not in a traceback."""
    try:
        # A terminal that cannot show a letter shows its number.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        # Without standalone mode click returns the code of an early exit instead of exiting.
        code = orchestrator.main(prog_name="orchestrator", standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = INTERRUPTED_CODE
    except Exception as error:
        code = report_error(error)
    sys.exit(code)
