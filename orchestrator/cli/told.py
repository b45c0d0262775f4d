"""Say in a sentence what went wrong, and with which code to leave."""

import click
import psycopg

from orchestrator.errors import OrchestratorError
from orchestrator.observe import printable


def told(error: Exception) -> int:
    """Print what a user should read, and return the exit code; raise again what nobody foresaw."""
    match error:
        case click.exceptions.Abort():
            return 130
        case click.ClickException():
            error.show()
            return error.exit_code
        case OrchestratorError():
            say(str(error))
            return 1
        case psycopg.Error():
            # The primary message alone: DETAIL may print a row.
            say(f"PostgreSQL: {error.diag.message_primary or str(error).strip()}")
            return 1
        case _:
            raise error


def say(message: str) -> None:
    """Print a message, which may quote what a stranger has written."""
    click.echo("error: " + printable(message, keeping="\n"), err=True)
