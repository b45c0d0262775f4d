"""Logins for the tests of rights and of definers."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.schema.logins import Login, logins


@pytest.fixture
def login(administrator: psycopg.Connection, database_url: str) -> Iterator[Login]:
    """Log in as a new member of exactly one role; the name `public` makes a member of no role."""
    with logins(administrator, database_url) as log_in:
        yield log_in
