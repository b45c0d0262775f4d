"""Which tests are long: those of the nightly runs (`make test-long`), and not of each change (`make test`).

The short tier has every promise and every feature; the long one has the same with more cases, rows, minutes and faults.
`pytest.mark.long` makes a whole test long, `long(…)` some of its parameters. pyproject.toml leaves them out by
`-m "not long"`; a later `-m` takes its place: `pytest -m long`, or `pytest -m ""` for all tests.
"""

import pytest


def long(*values: object) -> object:
    """Make one set of parameters long."""
    return pytest.param(*values, marks=pytest.mark.long)
