"""Keep secrets off the screen: what stands under a key whose name says that it is one."""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
SECRET = re.compile(r"passw|pwd|secret|token|authorization|api[-_]?key|credential|cookie", re.IGNORECASE)
IN_TEXT = re.compile(
    rf"(\w{{0,40}}(?:{SECRET.pattern})\w{{0,40}}[\"']?\s{{0,3}}[=:]\s{{0,3}})[^\s,;&}}\])]{{1,500}}", re.I
)


def masked(value: Any) -> Any:
    """Return a value as JSON has it, its secrets masked."""
    match value:
        case Mapping():
            return {name: MASK if SECRET.search(str(name)) else masked(each) for name, each in value.items()}
        case list():
            return [masked(each) for each in value]
        case str():
            return masked_text(value)
        case _:
            return value


def masked_text(text: str) -> str:
    """Return a text with what follows the name of a secret masked."""
    return IN_TEXT.sub(rf"\1{MASK}", text) if SECRET.search(text) else text
