"""Mask secrets in log lines: the values of fields with a secret's name, and passwords inside text.

This is no guarantee: a secret is recognised only by its name. A secret without a name, in a payload or in an
exception's message, is shown.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

MASK = "***"
DEPTH_MAX = 8
PAYLOAD_CHARACTERS_MAX = 2_000

NAMES = (
    r"passw|passphrase|pwd|secret|token|authorization|api[-_]?key|access[-_]?key|private[-_]?key|cookie|credential|"
    r"database[-_]?url|dsn"
)
SECRET = re.compile(NAMES, re.IGNORECASE)
# All repetitions are bounded, so that the cost of a long untrusted text grows only with its length.
IN_URL = re.compile(r"(://[^\s:/@]{0,200}:)[^\s@]{1,200}@")
IN_TEXT = re.compile(
    rf"((?:{NAMES})\w{{0,40}}[\"']?\s{{0,3}}[=:]\s{{0,3}})"
    r"(?!//)(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|(?:(?:bearer|basic|digest) )?[^\s,;&\"'}\])]{1,500})",
    re.IGNORECASE,
)
BEARER = re.compile(r"\b(bearer|basic) [A-Za-z0-9+/=._~-]{8,500}", re.IGNORECASE)


def masked_fields(fields: Mapping[Any, Any], depth: int = 0) -> dict[Any, Any]:
    """Return the fields of a line, or of an object in a line, with secrets masked."""
    return {name: masked(value, name=str(name), depth=depth) for name, value in fields.items()}


def masked(value: Any, *, name: str = "", depth: int = 0) -> Any:
    """Return a value with its secrets masked."""
    if SECRET.search(name) and value not in (None, ""):
        return MASK
    match value:
        case str():
            return masked_text(value)
        case Mapping() | list() | tuple() if depth >= DEPTH_MAX:
            return "…"
        case Mapping():
            return masked_fields(value, depth + 1)
        case list() | tuple():
            return [masked(each, depth=depth + 1) for each in value]
        case _:
            return value


def masked_text(text: str) -> str:
    """Return a text with masked passwords in URLs, and masked values after the names of secrets."""
    if "://" in text:
        text = IN_URL.sub(rf"\1{MASK}@", text)
    if SECRET.search(text):
        text = IN_TEXT.sub(masked_value, text)
    return BEARER.sub(rf"\1 {MASK}", text)


def masked_value(found: re.Match[str]) -> str:
    """Return a name and its mask, in quotes where the value was."""
    value = found[0][len(found[1]) :]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found[1]}{quote}{MASK}{quote}"


def masked_payload(text: str) -> str:
    """Return a payload, as JSON text, with its secrets masked, and cut to PAYLOAD_CHARACTERS_MAX."""
    try:
        shown = msgspec.json.encode(masked(msgspec.json.decode(text))).decode()
    except (ValueError, RecursionError):  # PostgreSQL stores JSON that Python refuses
        return "unreadable"
    return shown if len(shown) <= PAYLOAD_CHARACTERS_MAX else shown[:PAYLOAD_CHARACTERS_MAX] + "…"
