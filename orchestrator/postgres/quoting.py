"""Hide the values that a database error quotes: the row in DETAIL, parameters in CONTEXT, the statement itself, which
holds parameters if the client binds them (as Django's cursors do), and what SQLAlchemy adds.

A row may hold a payload, or a password of the application's own table. An error is stored with its task, listed and
logged, where people without access to that table read it. The server's primary message, which names the constraint,
stays.
"""

import re
from contextlib import suppress

QUOTES = re.compile(r"\n(?:LINE \d+|DETAIL|QUERY|CONTEXT): ")
LINKS_MAX = 100


def hide_values(error: BaseException) -> None:
    """Remove these values from an error's text, for every known driver and framework."""
    if hasattr(error, "hide_parameters"):  # SQLAlchemy's
        error.hide_parameters = True
    if hasattr(error, "sqlstate") and isinstance(getattr(error, "detail", None), str):  # asyncpg's
        vars(error)["detail"] = None
    if error.args and isinstance(error.args[0], str) and (found := QUOTES.search(error.args[0])):
        error.args = (error.args[0][: found.start()], *error.args[1:])


def hide_all_values(error: BaseException) -> None:
    """Do so for an error and for every other error in its traceback."""
    waiting, met = [error], set[int]()
    # Ends: each error is visited once, and at most LINKS_MAX.
    while waiting and len(met) < LINKS_MAX:
        link = waiting.pop()
        if id(link) in met:
            continue
        met.add(id(link))
        with suppress(Exception):  # an error that cannot be changed must not stop the others
            hide_values(link)
        inside = link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        waiting += [near for near in (link.__cause__, link.__context__, *inside) if near is not None]
