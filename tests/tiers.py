"""The long tests: those of the nightly runs (`make test-long`), which do not run for each change (`make test`).

The short tier covers every promise and every feature; the long tier covers the same with more cases, rows, minutes
and faults. `pytest.mark.long` makes a whole test long, `long(…)` some of its parameters. pyproject.toml excludes
them with `-m "not long"`; a later `-m` replaces that: `pytest -m long`, or `pytest -m ""` for all tests.
"""

import pytest


def long(*values: object) -> object:
    """Make one set of parameters long."""
    return pytest.param(*values, marks=pytest.mark.long)
