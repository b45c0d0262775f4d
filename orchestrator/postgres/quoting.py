"""What a database's error quotes: the row in DETAIL, parameters in CONTEXT, the statement itself, which holds them
where the client binds them (as Django's cursors do), and whatever SQLAlchemy adds.

A row may hold a payload, or a password of the application's own table. An error is stored with its task, listed, and
logged, where people read it who may not read that table. The server's message itself names the constraint, and stays.
"""

import re
from contextlib import suppress

QUOTES = re.compile(r"\n(?:LINE \d+|DETAIL|QUERY|CONTEXT): ")
LINKS_MAX = 100


def hide_values(error: BaseException) -> None:
    """Take that out of an error's text, whichever driver or framework made it."""
    if hasattr(error, "hide_parameters"):  # SQLAlchemy's
        error.hide_parameters = True
    if hasattr(error, "sqlstate") and isinstance(getattr(error, "detail", None), str):  # asyncpg's
        vars(error)["detail"] = None
    if error.args and isinstance(error.args[0], str) and (found := QUOTES.search(error.args[0])):
        error.args = (error.args[0][: found.start()], *error.args[1:])


def hide_all_values(error: BaseException) -> None:
    """Do so with an error and with every other that a traceback shows beside it."""
    waiting, met = [error], set[int]()
    # Ends: each is met once, and no more than so many.
    while waiting and len(met) < LINKS_MAX:
        link = waiting.pop()
        if id(link) in met:
            continue
        met.add(id(link))
        with suppress(Exception):  # a link that will not be changed keeps the others from nothing
            hide_values(link)
        inside = link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        waiting += [near for near in (link.__cause__, link.__context__, *inside) if near is not None]
