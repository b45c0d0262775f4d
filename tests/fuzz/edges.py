"""Every function that a role may call, each argument at each edge of its type, with normal other arguments."""

from collections.abc import Iterator

import psycopg

from tests.fuzz.functions import Function, FunctionCall

# Longer than any limit of a text, and than a payload may be.
LONG = "x" * 1_000_000
EDGES: dict[str, tuple[str | None, ...]] = {
    "text": (None, "", LONG, "\x01", "a\nb", "\u202e", "é" * 501, "%s", "'; --"),
    "jsonb": (
        None, "null", "1", "{}", "[]", "[null]", "[[]]", "[{}]", '[{"type": null}]', '"x"', f'"{LONG}"',
        f'{{"a": "{LONG}"}}',
        '{"type": "mail", "delay": "1000000 years"}', '[{"type": "mail", "delay": "1000000 years"}]',
        '[{"type": "mail", "key": "k", "key_window": "1000000 years"}]', '[{"type": "mail", "priority": 1e400}]',
        f'[{{"type": "{LONG}"}}]', f'[{{"type": "mail", "{LONG}": 1}}]', f'[{{"type": "mail", "run_at": "{LONG}"}}]',
        f'[{{"type": "mail", "priority": "{LONG}"}}]', '[{"type": "mail", "tags": [null]}]',
        '[{"type": "mail", "tags": 1}]',
        '[{"queue": "mail", "type": "mail", "wait": {"x": 1}}]', '[{"queue": "q", "type": "t", "wait": {"99999": 1}}]',
        '[{"queue": "q", "type": "t", "run_seconds": 1e400}]',
    ),
    "smallint": (None, "0", "-1", "32767", "-32768"),
    "integer": (None, "0", "-1", "32767", "2147483647", "-2147483648"),
    "bigint": (None, "0", "-1", "2147483648", "9223372036854775807", "-9223372036854775808"),
    "boolean": (None, "true", "false"),
    "double precision": (None, "0", "-1", "NaN", "Infinity", "-Infinity", "1e308"),
    "timestamp with time zone": (None, "infinity", "-infinity", "294276-12-31 UTC", "4714-11-24 BC UTC", "now"),
    "date": (None, "infinity", "-infinity", "5874897-12-31", "4714-11-24 BC", "9001-01-01"),
    "interval": (None, "0", "-1 s", "1000000 years", "178000000 years", "-178000000 years", "0.000001 s"),
    "text[]": (None, "{}", "{NULL}", "{{a,b},{c,d}}", f"{{{LONG}}}", "{" + ",".join(["t"] * 101) + "}"),
    "uuid": (None, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "uuid[]": (None, "{}", "{NULL}", "{00000000-0000-0000-0000-000000000000}"),
}  # fmt: skip
SOUND = {
    "text": "post", "jsonb": "{}", "smallint": "1", "integer": "1", "bigint": "1", "boolean": "true",
    "double precision": "1", "timestamp with time zone": "2030-01-01 UTC", "date": "2030-01-01", "interval": "1 hour",
    "text[]": "{a}", "uuid": "00000000-0000-0000-0000-000000000000", "uuid[]": "{}",
}  # fmt: skip
INFINITE = {"interval": ("infinity", "-infinity")}
# A refusal is one line. It must not repeat a name of a megabyte.
REFUSAL_CHARACTERS_MAX = 400


def calls(function: Function, server_version: int) -> Iterator[FunctionCall]:
    """Yield one call for each edge of each argument, and one with the required arguments only."""
    always = {name: SOUND[kind] for name, kind in function.arguments[: function.required]}
    yield FunctionCall(function, always)
    for name, kind in function.arguments:
        for edge in EDGES[kind] + (INFINITE.get(kind, ()) if server_version >= 170_000 else ()):
            yield FunctionCall(function, {**always, name: edge})


def fault(call: FunctionCall, error: psycopg.Error) -> str | None:
    """Return what is wrong with a refusal, or None: it is one line, with the project's own SQLSTATE or a taken key."""
    message = (error.diag.message_primary or "") + (error.diag.message_hint or "")
    given = {
        name: value if value is None or len(value) < 80 else f"{value[:60]}…"
        for name, value in call.given.items()
    }
    description = f"{call.function.name}({given}) as {call.function.role}: {error.sqlstate} {message[:200]}"
    taken = error.sqlstate == "23505" and error.diag.constraint_name is None
    if not (error.sqlstate or "").startswith("OR") and not taken:
        return description
    if len(message) > REFUSAL_CHARACTERS_MAX or not (error.diag.message_primary or "").isprintable():
        return f"{description} … ({len(message)} characters, or not printable)"
    return None
