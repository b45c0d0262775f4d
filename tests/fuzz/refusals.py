"""The refusals that count as refusals by name."""

from collections import Counter

import psycopg

from orchestrator.errors import EnqueueRefused

# Ours (reference/sql.md), and the one that everybody knows: a unique violation, for a key that is taken.
OURS = "OR"
TAKEN = "23505"
# What is no value of its type, or beyond it: PostgreSQL's own names, with the value in its words. Not what a function
# gets wrong within itself, such as 22023, "cannot extract elements from an object".
NO_VALUE = {
    "22003": "a number out of range",
    "22007": "no time",
    "22008": "a time out of range",
    "22009": "no time zone",
    "22015": "a span of time out of range",
    "22021": "no UTF-8",
    "2201W": "a limit below 0",
    "22P02": "no text of its type",
    "22P05": "NUL in JSON",
    "54001": "nested deeper than PostgreSQL reads",
}


def by_name(error: Exception) -> str | None:
    """Say by which name a call was refused; None: by none, which must not be."""
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
            return "the driver's, no text"  # NUL or half a character never leaves the client
        case TypeError() if "no option" in str(error) or "unexpected" in str(error):
            return "TypeError"
        case _:
            return None


def table(tally: Counter[str]) -> str:
    """Return the counts, the commonest first."""
    return "\n".join(
        f"  {count:8,}  {what}" for what, count in sorted(tally.items(), key=lambda kv: (-kv[1], kv[0]))
    )
