"""Logins that are members of one of our roles, and of no other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

Login = Callable[[str], psycopg.Connection]


@contextmanager
def logins(administrator: psycopg.Connection, database_url: str) -> Iterator[Login]:
    """Yield a login that is a member of the named role; of none for the name `public`.

    One role per block; the block drops what they make."""
    name = f"person_{uuid4().hex[:12]}"
    person = sql.Identifier(name)
    administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(person))
    opened: list[psycopg.Connection] = []

    def log_in(role: str) -> psycopg.Connection:
        if role != "public":
            member_of = sql.Identifier(f"orchestrator_{role}")
            administrator.execute(sql.SQL("GRANT {} TO {}").format(member_of, person))
        opened.append(psycopg.connect(make_conninfo(database_url, user=name), autocommit=True))
        return opened[-1]

    try:
        yield log_in
    finally:
        for session in opened:
            session.close()
        with psycopg.connect(database_url, autocommit=True) as cleaner:
            cleaner.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(person))
        administrator.execute(sql.SQL("DROP ROLE {}").format(person))
