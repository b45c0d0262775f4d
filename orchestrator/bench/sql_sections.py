"""Read a `.sql` file with several statements, each below a line `-- name: word`."""

import re
from collections.abc import Mapping

from orchestrator.postgres import statement

HEADING = re.compile(rb"^-- name: (\w+)$", re.MULTILINE)


def of(caller: str, name: str) -> Mapping[str, bytes]:
    """Return the statements of the file `name` in the folder of `caller`, by their names."""
    _, *parts = HEADING.split(statement.load(caller, name))
    return {word.decode(): text.strip() for word, text in zip(parts[::2], parts[1::2], strict=True)}
