"""Text that is safe on a terminal.

The name of a task and the error of its handler are untrusted text. At a terminal it could clear the screen, set the
title, forge a line or reverse the direction of letters. So characters that do not print are written as Python escapes.
"""


def printable(text: str, *, keeping: str = "") -> str:
    """Return the text with all characters escaped that do not print or change direction, except those in `keeping`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keeping else escaped(each) for each in text)


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
