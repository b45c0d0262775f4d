"""The application with which an installed wheel is tried: one task, enqueued, run, and found completed."""

import os
import sys
from pathlib import Path

import psycopg

from orchestrator import Orchestrator
from orchestrator.postgres import embedded

app = Orchestrator()


@app.task(name="wheel.double")
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def verify() -> None:
    """Fail unless the database holds the one task, completed, with its result."""
    directory = os.environ["ORCHESTRATOR_DATABASE_URL"].removeprefix("embedded:")
    with psycopg.connect(embedded.start(Path(directory))) as connection:
        rows = connection.execute("SELECT type, status, attempt, result FROM orchestrator.tasks").fetchall()
    print(rows)
    if rows != [("wheel.double", "completed", 1, 42)]:
        sys.exit("the task was not completed as it should have been")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["enqueue"]:
            double.enqueue(number=21)
        case ["verify"]:
            verify()
        case _:
            sys.exit("usage: wheel_app.py enqueue|verify")
