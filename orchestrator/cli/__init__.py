"""The command `orchestrator`: turns arguments into calls, and errors into sentences. It holds no other logic.

Exit codes of every command:

    0      done; an empty list is done too
    1      the command failed, and the message says why: no database, no schema, no right, no such task or queue, a
           check that failed
    2      the command line was wrong, and nothing was tried
    75     a worker has worn out (`processes.exit_codes`): it has stopped cleanly, and its supervisor should start
           another
    130    interrupted: Ctrl-C, also while it loads, or "no" to a question. A running worker ends with 0 instead
    141    the reader of the output has gone: `orchestrator … | head -1`
    128+n  a worker with --processes was killed by signal n, and was not replaced

Output for people goes to standard output, errors to standard error. With --json standard output holds JSON and nothing
else. Every flag has a variable, ORCHESTRATOR_<COMMAND>_<FLAG>. A flag overrides its variable.
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
# No variable: deployments use the name ORCHESTRATOR_VERSION for the version to install.
@click.version_option(__version__, prog_name="orchestrator", allow_from_autoenv=False)
def orchestrator() -> None:
    """Background jobs on the PostgreSQL you already have.

    \b
    Begin with:
      orchestrator demo               see it work, in ten seconds
      orchestrator dev MODULE:APP     run your tasks, on an embedded
                                      server

    \b
    Then, on your database:
      orchestrator migrate            create the tables
      orchestrator worker MODULE:APP  run tasks

    Set the database with ORCHESTRATOR_DATABASE_URL or --url:
    postgresql://user@host:5432/database, or embedded:./pgdata for an
    embedded server. demo, dev and embedded: need
    pg-orchestrator[embedded].

    Every flag can be set by a variable: ORCHESTRATOR_WORKER_GRACE sets
    worker --grace.
    """
    refuse_slips(orchestrator, os.environ)


orchestrator.commands = LazyCommands(COMMANDS)


def main() -> None:
    """Run the command. An error prints a sentence, not a traceback."""
    try:
        # A terminal that cannot show a character shows its code.
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
