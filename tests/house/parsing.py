"""Read a module's syntax tree."""

import ast
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """Parse a module, and again when the interpreter says that it lost count of its own depth.

    CPython 3.11 raises that SystemError now and then after a test that ran into the recursion limit.
    """
    for _ in range(3):
        try:
            return ast.parse(path.read_text())
        except SystemError:
            continue
    return ast.parse(path.read_text())
