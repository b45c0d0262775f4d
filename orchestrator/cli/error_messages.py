"""Say in a sentence what went wrong, and with which code to leave. All that a person reads when it could not be done.

Of what PostgreSQL says the primary message alone is shown, and a hint that is ours: DETAIL may print a row.
"""

import errno
import os
import re
import sys

import click
import psycopg
from psycopg import errors

from orchestrator.errors import OrchestratorError
from orchestrator.observe import printable

INTERRUPTED_CODE = 130
# Our own SQLSTATEs: their hints are ours as well, and say what to do instead.
OURS = "OR"
# What may keep a disk, or whatever stands for one, from taking what is printed.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
# A part of a command line that may be a part of a URL, and so of a password: a space in it makes arguments of both.
URL = re.compile(r"://|\S@\S")
NOT_REPEATED = (
    "the command line cannot be read. It is not repeated, since a URL in it may hold a password; write a URL in "
    "quotes, after --url"
)
ROLES = (
    "to look, a role needs orchestrator_reader; to change things, orchestrator_operator; to enqueue, "
    "orchestrator_producer"
)


def report_error(error: Exception) -> int:
    """Print what a user should read, and return the exit code; raise again what nobody foresaw."""
    match error:
        case click.exceptions.Abort():
            return INTERRUPTED_CODE
        case click.ClickException():
            if URL.search(error.message):
                click.UsageError(NOT_REPEATED, getattr(error, "ctx", None)).show()
            else:
                error.show()
            return error.exit_code
        case OrchestratorError():
            say(str(error))
            return 1
        case psycopg.Error():
            say(worded(error))
            return 1
        case UnicodeEncodeError() if "\udc80" <= error.object[error.start] <= "\udcff":
            # Not the text itself, which may be a URL and its password.
            where = f"at character {error.start + 1} of it"
            say(f"what was given is no text in UTF-8 ({where}), and PostgreSQL takes no other")
            return 1
        case OSError() if error.errno in UNWRITABLE and error.filename is None:
            write_nowhere()
            say(f"cannot write the output: {error.strerror}")
            return 1
        case _:
            raise error


def write_nowhere() -> None:
    """Let what is still buffered go nowhere: the interpreter would complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def worded(error: psycopg.Error) -> str:
    """Say what PostgreSQL, or the way to it, has against it, and what to do next where that is known."""
    said = f"PostgreSQL: {error.diag.message_primary or str(error).strip()}"
    match error:
        case errors.InsufficientPrivilege():
            return f"{said}; {ROLES}"
        case errors.ReadOnlySqlTransaction():
            return f"{said}: a standby, or a read-only session; name a database that takes writes (--url)"
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return f"{said}: another session has it locked, and nothing was changed; try again"
        case errors.QueryCanceled():
            return (
                f"{said}; nothing was changed by it. Ask for less, or try again when the server is less busy"
            )
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.UndefinedColumn():
            return f"{said}; the schema is not this version's: run `orchestrator migrate`"
        case psycopg.OperationalError() if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return f"{said}; the connection is lost. What was being changed is done, or not: look before you repeat it"
        case _ if (error.sqlstate or "").startswith(OURS) and error.diag.message_hint:
            return f"{error.diag.message_primary}. {error.diag.message_hint}"
        case _:
            return said


def say(message: str) -> None:
    """Print a message, which may quote what a stranger has written."""
    click.echo("error: " + printable(message, keeping="\n"), err=True)
