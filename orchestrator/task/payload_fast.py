"""The fast way for the usual payload: a small object of plain texts and numbers, in a quarter of the walk's time.

It writes the same text as the walk in `payload.py`, or returns None and leaves the value to the walk. It takes only
values that are never refused for their content, so it keeps no path. The length of its text is its size.

Measured on one core (Python 3.11), against the walk: {"user_id": 1} 0.3 µs and 1.1; 20 fields of 1 kB in all 4 and 11.
"""

from json.encoder import encode_basestring as quoted

# For larger payloads the walk's time does not matter: the database takes most of the time.
MEMBERS_MAX = 20
TEXT_LENGTH_MAX = 1_000
INT_MAX = 2**63
INT_MIN = -INT_MAX


def written(value: object) -> str | None:
    """Return a payload's text, all of it ASCII; None if it is not of the usual kind."""
    if type(value) is not dict or len(value) > MEMBERS_MAX:
        return None
    text = ""
    before = "{"
    for key, item in value.items():
        if type(key) is not str or not key.isascii() or not key.isidentifier():
            return None
        kind = type(item)
        if kind is int:
            if not INT_MIN < item < INT_MAX:
                return None
            text = f'{text}{before}"{key}": {item}'
        elif kind is str:
            if len(item) > TEXT_LENGTH_MAX or not item.isascii() or "\x00" in item:
                return None
            text = f'{text}{before}"{key}": {quoted(item)}'
        elif item is None:
            text = f'{text}{before}"{key}": null'
        elif kind is bool:
            text = f'{text}{before}"{key}": {"true" if item else "false"}'
        else:
            return None
        before = ", "
    return f"{text}}}" if text else "{}"
