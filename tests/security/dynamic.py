"""Find SQL that a PL/pgSQL function builds from text.

EXECUTE may run a constant, or a format() with %I and %L. It may use %s only for a value that is declared as a regclass
or a number, because PostgreSQL itself writes such a value as text.

This module reads the source and is no SQL parser: it reports everything that it does not understand.
"""

import re
from collections.abc import Iterator

COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# The pattern skips EXECUTE FUNCTION of a trigger and the privilege EXECUTE ON.
EXECUTE = re.compile(r"\bEXECUTE\b(?!\s+(?:FUNCTION|PROCEDURE|ON)\b)\s*")
LITERAL = re.compile(r"\s*'((?:[^']|'')*)'|\s*\$(\w*)\$(.*?)\$\2\$", re.DOTALL)
NAME = re.compile(r"\w+")
HOLE = re.compile(r"%(?:(\d+)\$)?-?\d*([sIL%])")
WRITTEN_BY_THE_SERVER = ("regclass", "oid", "integer", "bigint")


def found(source: str) -> list[str]:
    """Return the fault of each unsafe EXECUTE in a function's source."""
    text = COMMENT.sub("", source)
    return [fault for place in EXECUTE.finditer(text) if (fault := judged(text, place.end()))]


def judged(text: str, start: int) -> str | None:
    """Return the fault of the expression that begins at `start`, or None."""
    rest = text[start:]
    if rest.startswith("format("):
        return judged_format(text, arguments(rest[len("format(") :]))
    if LITERAL.match(rest):
        literal, end = joined(rest)
        return None if ends(rest[end:]) else f"{literal[:40]!r} is joined with something"
    name = NAME.match(rest)
    if name and is_constant(text, name[0]) and ends(rest[name.end() :]):
        return None
    return f"it runs {rest[:40]!r}"


def judged_format(text: str, given: list[str]) -> str | None:
    """Return the fault of a format(), or None: check its template, then the value for each placeholder."""
    template, end = joined(given[0])
    if not template or given[0][end:].strip():
        return f"its format {given[0][:40]!r} is no constant"
    next_place = 1
    for place, kind in HOLE.findall(template):
        if kind == "%":
            continue
        number = int(place) if place else next_place
        next_place = number + 1
        value = given[number].strip() if number < len(given) else ""
        if kind == "s" and not is_declared(text, value):
            return f"%s takes {value!r}"
    return None


def joined(text: str) -> tuple[str, int]:
    """Read a literal, or several adjacent literals; return the joined text and the end position."""
    pieces, end = [], 0
    while piece := LITERAL.match(text, end):
        pieces.append(piece[1] if piece[1] is not None else piece[3] or "")
        end = piece.end()
    return "".join(pieces), end


def ends(rest: str) -> bool:
    """Return whether an expression ends here."""
    return re.match(r"\s*(?:;|\)|USING\b|INTO\b|LOOP\b)", rest) is not None


def is_constant(text: str, name: str) -> bool:
    """Return whether a name is declared as CONSTANT text with a literal as its value."""
    declared = re.search(rf"\b{name}\s+CONSTANT\s+text\s*:=\s*", text)
    if declared is None:
        return False
    rest = text[declared.end() :]
    literal, end = joined(rest)
    return bool(literal) and ends(rest[end:])


def is_declared(text: str, name: str) -> bool:
    """Return whether a name is declared with a type whose text form the server itself writes."""
    kinds = "|".join(WRITTEN_BY_THE_SERVER)
    return bool(name) and re.search(rf"\b{re.escape(name)}\s+(?:CONSTANT\s+)?(?:{kinds})\b", text) is not None


def arguments(text: str) -> list[str]:
    """Return the arguments of a call; the text begins after its opening parenthesis."""
    return list(split(text))


def split(text: str) -> Iterator[str]:
    """Yield the arguments up to the parenthesis that closes the call."""
    depth, begin, at = 0, 0, 0
    while at < len(text):
        if literal := LITERAL.match(text, at):
            at = literal.end()
            continue
        match text[at]:
            case "(":
                depth += 1
            case ")" if depth == 0:
                yield text[begin:at]
                return
            case ")":
                depth -= 1
            case "," if depth == 0:
                yield text[begin:at]
                begin = at + 1
            case _:
                pass
        at += 1
