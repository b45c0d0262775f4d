"""The errors that count as a refusal by name."""

from collections import Counter

import psycopg

from orchestrator.errors import EnqueueRefused

# The project's own SQLSTATEs (reference/sql.md), and the standard one of a unique violation, for a key that is taken.
OURS = "OR"
TAKEN = "23505"
# PostgreSQL's own errors for a value that is no value of its type, or out of its range. Their message has the value.
# An error inside a function does not count, such as 22023, "cannot extract elements from an object".
NO_VALUE = {
    "22003": "a number out of range",
    "22007": "not a time",
    "22008": "a time out of range",
    "22009": "not a time zone",
    "22015": "an interval out of range",
    "22021": "not UTF-8",
    "2201W": "a limit below 0",
    "22P02": "text that is no value of its type",
    "22P05": "NUL in JSON",
    "54001": "nested deeper than PostgreSQL reads",
}


def by_name(error: Exception) -> str | None:
    """Return the name of a refusal, or None for an error that is a fault."""
    match error:
        case EnqueueRefused():
            state = error.sqlstate
            named = str(error) != "" and (state is None or state.startswith(OURS) or state == TAKEN)
            return type(error).__name__ if named else None
        case psycopg.errors.UniqueViolation() if error.diag.constraint_name is None:
            return f"{TAKEN}, a key that is taken"
        case psycopg.Error() if error.sqlstate is not None:
            state = error.sqlstate
            if state.startswith(OURS):
                return state
            return f"{state}, {NO_VALUE[state]}" if state in NO_VALUE else None
        case psycopg.DataError() | UnicodeEncodeError():
            return "by the driver: NUL or a lone surrogate, which it does not send"
        case TypeError() if "no option" in str(error) or "unexpected" in str(error):
            return "TypeError"
        case _:
            return None


def table(tally: Counter[str]) -> str:
    """Return the counts, the largest first."""
    return "\n".join(
        f"  {count:8,}  {what}" for what, count in sorted(tally.items(), key=lambda kv: (-kv[1], kv[0]))
    )
