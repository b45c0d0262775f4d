"""The command `orchestrator`: translates words into calls, and errors into sentences. Holds no logic.

Exit codes: 0 done · 1 it could not be done, and the message says why · 2 the command line was wrong · 75 a worker
has worn out (`worker.WORN_OUT`): it has stopped cleanly, and whoever started it should start another.
"""

import sys

import click

from orchestrator.cli.bench import bench
from orchestrator.cli.demo import demo
from orchestrator.cli.dev import dev
from orchestrator.cli.migrate import migrate
from orchestrator.cli.resume import resume
from orchestrator.cli.sql import sql
from orchestrator.cli.told import told
from orchestrator.cli.worker import worker
from orchestrator.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="orchestrator")
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
    """


for command in (bench, demo, dev, migrate, resume, sql, worker):
    orchestrator.add_command(command)


def main() -> None:
    """Run the command; what goes wrong is said in a sentence, not in a traceback."""
    try:
        # Without standalone mode click returns the code of an early exit instead of exiting.
        code = orchestrator.main(standalone_mode=False) or 0
    except Exception as error:
        code = told(error)
    sys.exit(code)
