"""The message for an empty list, with a likely cause: an unknown queue, or a number that is text in the payload."""

import difflib
from collections.abc import Iterator
from typing import Any

import psycopg

from orchestrator.operate import Search, find
from orchestrator.task.duration import cut, shown


def matches(connection: psycopg.Connection[Any], search: Search) -> str:
    """Return the sentence for an empty list."""
    statuses = f"{' or '.join(search.statuses)} " if search.statuses else ""
    return ". ".join([f"no {statuses}task matches", *hints(connection, search)])


def hints(connection: psycopg.Connection[Any], search: Search) -> Iterator[str]:
    known = find.names(connection)
    for word, given, names in (("queue", search.queues, known.queues), ("type", search.types, known.types)):
        for name in given:
            if "*" not in name and name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                yield f"There is no {word} {shown(name)}" + (f"; did you mean {near[0]!r}?" if near else "")
    for condition in search.payload:
        path = ".".join(condition.path)
        if not condition.value.startswith(('"', "{", "[")):
            value = cut(condition.value)
            yield f"{value} is not text here; for text write payload.{cut(path)}='\"{value}\"'"
