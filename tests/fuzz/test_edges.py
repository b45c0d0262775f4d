"""Each argument of each function at each edge of its type gets an answer, or a refusal in one line."""

import psycopg

from tests.fuzz import edges, functions
from tests.fuzz.task_run import DECLARED


def test_every_argument_at_every_edge_is_answered_or_refused_in_one_line(
    connection: psycopg.Connection,
) -> None:
    """A refusal has the project's own SQLSTATE, repeats only the beginning of a long value, and is never the server's
    own message."""
    connection.execute(DECLARED.encode())
    connection.execute("SET client_min_messages = warning")
    faults: list[str] = []
    tried = 0
    for function in functions.callable_ones(connection):
        for call in edges.calls(function, connection.info.server_version):
            tried += 1
            try:
                with connection.transaction(force_rollback=True):
                    call.within(connection)
            except psycopg.Error as error:
                if found := edges.fault(call, error):
                    faults.append(found)

    assert not faults, "\n".join(faults)
    assert tried > 500
