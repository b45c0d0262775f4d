"""Load a statement from the `.sql` file beside its caller.

It is loaded as bytes: psycopg accepts bytes without the type check for literals, and Python caches their hash, so
looking up a prepared statement costs nothing.
"""

from functools import cache
from pathlib import Path


@cache
def load(caller: str, name: str) -> bytes:
    """Return the text of the file `name` in the folder of `caller` (its `__file__`)."""
    return Path(caller).with_name(name).read_bytes()
