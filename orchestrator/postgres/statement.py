"""Load a statement from a `.sql` file beside its caller.

A file holds one statement, or short ones of one module: sections, each below a line `-- name: word`. What stands above
the first section belongs to none.

A statement is loaded as bytes: psycopg accepts bytes without the type check for literals, and Python caches their hash,
so looking up a prepared statement costs nothing.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

HEADING = re.compile(rb"^-- name: (.*)\n", re.MULTILINE)
WHOLE = ""


def load(caller: str, name: str, section: str = WHOLE) -> bytes:
    """Return the only statement of the file `name` in the folder of `caller` (its `__file__`), or one section."""
    found = sections(caller, name)
    if section not in found:
        raise LookupError(f"{name} beside {caller} has no section {section!r}; it has {list(found)}")
    return found[section]


@cache
def sections(caller: str, name: str) -> Mapping[str, bytes]:
    """Return the sections of a file by their names."""
    text = Path(caller).with_name(name).read_bytes()
    _, *parts = HEADING.split(text)
    names = [word.decode() for word in parts[::2]]
    if len(set(names)) < len(names):
        raise ValueError(f"{name} beside {caller} has a section twice: {names}")
    found = {each: body.strip() for each, body in zip(names, parts[1::2], strict=True)}
    return MappingProxyType(found or {WHOLE: text})
