"""Read a `.sql` file that holds several statements, each under a line `-- name: word`."""

import re
from collections.abc import Mapping

from orchestrator.postgres import statement

HEADING = re.compile(rb"^-- name: (\w+)$", re.MULTILINE)


def of(caller: str, name: str) -> Mapping[str, bytes]:
    """Return the statements of `name`, which lies beside `caller`, by their names."""
    _, *parts = HEADING.split(statement.load(caller, name))
    return {word.decode(): text.strip() for word, text in zip(parts[::2], parts[1::2], strict=True)}
