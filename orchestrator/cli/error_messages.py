"""The sentence and the exit code for each error that a command reports.

Of a PostgreSQL error only the primary message is shown, and a hint if it is ours: DETAIL may print a row.
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
from orchestrator.task.duration import cut

INTERRUPTED_CODE = 130
# The class of our own SQLSTATEs. Their hints are ours too, and say what to do instead.
OURS = "OR"
# The errors of a disk, or of another device, that cannot take the output.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
# Text that may be part of a URL, and so of a password: a space in an unquoted URL splits it into arguments.
URL = re.compile(r"://|\S@\S")
NOT_REPEATED = (
    "the command line cannot be read. It is not repeated, since a URL in it may hold a password; write a URL in "
    "quotes, after --url"
)
# A message quotes names and values that a user gave. They may have any length.
LONG_WORD = re.compile(r"(\S{200})\S+(\S{60})")
CHARACTERS_MAX = 10_000
ROLES = (
    "to look, a role needs orchestrator_reader; to change things, orchestrator_operator; to enqueue, "
    "orchestrator_producer"
)


def report_error(error: Exception) -> int:
    """Print the message for the user, and return the exit code. Raise an unexpected error again."""
    match error:
        case click.exceptions.Abort():
            return INTERRUPTED_CODE
        case click.ClickException():
            whole = error.format_message()
            shown = NOT_REPEATED if URL.search(error.message) else shortened(whole)
            if shown == whole:
                error.show()
            else:
                click.UsageError(shown, getattr(error, "ctx", None)).show()
            return error.exit_code
        case OrchestratorError():
            say(str(error))
            return 1
        case psycopg.Error():
            say(worded(error))
            return 1
        case UnicodeEncodeError() if "\udc80" <= error.object[error.start] <= "\udcff":
            # The text itself is not printed: it may be a URL with its password.
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
    """Send buffered output to /dev/null: the interpreter would report an error when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def worded(error: psycopg.Error) -> str:
    """Return the message of an error of PostgreSQL or of the connection, and what to do next where that is known."""
    message = f"PostgreSQL: {error.diag.message_primary or str(error).strip()}"
    match error:
        case errors.InsufficientPrivilege():
            return f"{message}; {ROLES}"
        case errors.ReadOnlySqlTransaction():
            return f"{message}: a standby, or a read-only session; name a database that takes writes (--url)"
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return f"{message}: another session has it locked, and nothing was changed; try again"
        case errors.QueryCanceled():
            return f"{message}; it changed nothing. Ask for less, or try again when the server is less busy"
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.UndefinedColumn():
            return f"{message}; the schema is of another version: run `orchestrator migrate`"
        case psycopg.OperationalError() if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return f"{message}; the connection is lost. The change may or may not be done: look before you repeat it"
        case _ if (error.sqlstate or "").startswith(OURS) and error.diag.message_hint:
            return f"{error.diag.message_primary}. {error.diag.message_hint}"
        case _:
            return message


def say(message: str) -> None:
    """Print a message. It may quote untrusted text: control characters are escaped, and what is long is cut."""
    click.echo("error: " + shortened(printable(message, keeping="\n")), err=True)


def shortened(message: str) -> str:
    """Return a message without the middles of its long words, cut to CHARACTERS_MAX characters."""
    return cut(LONG_WORD.sub(r"\1…\2", message), CHARACTERS_MAX)
