"""Text as a terminal may show it.

What a task is called and what its handler raised are a stranger's words. At a terminal they could clear the screen, set
its title, forge a line or turn the letters around; so what does not print is written as Python would write it.
"""


def printable(text: str, *, keeping: str = "") -> str:
    """Return the text with everything escaped that does not print, or that turns what does; `keeping` stays."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keeping else escaped(each) for each in text)


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
