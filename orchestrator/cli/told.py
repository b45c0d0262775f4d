"""Say in a sentence what went wrong, and with which code to leave."""

import click
import psycopg

from orchestrator.errors import OrchestratorError


def told(error: Exception) -> int:
    """Print what a user should read, and return the exit code; raise again what nobody foresaw."""
    match error:
        case click.exceptions.Abort():
            return 130
        case click.ClickException():
            error.show()
            return error.exit_code
        case OrchestratorError():
            click.echo(f"error: {error}", err=True)
            return 1
        case psycopg.Error():
            # The primary message alone: DETAIL may print a row.
            click.echo(f"error: PostgreSQL: {error.diag.message_primary or str(error).strip()}", err=True)
            return 1
        case _:
            raise error
