"""Load a statement from the `.sql` file beside its caller.

As bytes: that is what psycopg takes without a claim about literals, and their hash is kept, so that looking up a
prepared statement costs nothing.
"""

from functools import cache
from pathlib import Path


@cache
def load(caller: str, name: str) -> bytes:
    """Return the text of `name`, which lies in the folder of `caller` (its `__file__`)."""
    return Path(caller).with_name(name).read_bytes()
