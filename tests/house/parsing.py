"""Read a module's syntax tree."""

import ast
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """Parse a module; repeat if the interpreter raises SystemError because its recursion counter is wrong.

    CPython 3.11 sometimes raises it after a test that reached the recursion limit.
    """
    for _ in range(3):
        try:
            return ast.parse(path.read_text())
        except SystemError:
            continue
    return ast.parse(path.read_text())
