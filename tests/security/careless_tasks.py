"""An application that handles secrets badly: it returns, raises and reports its input, or fails on it.

Its own texts come from the environment. So the tests can distinguish the payload from the result.
"""

import os
from datetime import date
from typing import Any

import psycopg
from psycopg import sql

from orchestrator import Backoff, Cancel, Context, Discard, Orchestrator, Retry

AT_ONCE = Backoff(base_seconds=0.0, jitter=0.0)
RESULT = os.environ.get("CANARY_RESULT", "")
EXCEPTION = os.environ.get("CANARY_EXCEPTION", "")
PROGRESS = os.environ.get("CANARY_PROGRESS", "")

app = Orchestrator()


@app.task(name="vault.keep")
async def keep(secret: str, context: Context) -> str:
    """Report progress, then return."""
    context.progress(PROGRESS)
    context.log.info("kept", length=len(secret))
    return RESULT


@app.task(name="vault.compute", executor="process")
def compute(secret: str) -> str:
    """Return from a child process."""
    return RESULT


@app.task(name="vault.book")
async def book(secret: str, context: Context) -> None:
    """Complete the task in a transaction of its own."""
    async with context.transaction() as connection:
        await connection.execute("SELECT %s", [secret])
        context.result(RESULT)


@app.task(name="vault.break", backoff=AT_ONCE, max_attempts=2)
def break_down(how: str, secret: str) -> Any:
    """End the attempt in the way that `how` names."""
    match how:
        case "raise":
            raise ValueError(EXCEPTION)
        case "retry":
            raise Retry("0s", EXCEPTION)
        case "discard":
            raise Discard(EXCEPTION)
        case "cancel":
            raise Cancel(EXCEPTION)
        case "unfit result":
            return {"kept": {secret, RESULT}}
        case "huge result":
            return RESULT * 100_000
    return None


@app.task(name="vault.crash", executor="process", max_attempts=1)
def crash(secret: str) -> None:
    """End the child process."""
    os._exit(3)


@app.task(name="vault.typed", max_attempts=1)
def typed(on: date, number: int) -> None:
    """Accept only a date and a number; the tests give other types."""


@app.task(name="vault.query", max_attempts=1)
async def query(table: str, secret: str) -> None:
    """Violate a constraint whose error message contains the row."""
    async with await psycopg.AsyncConnection.connect(
        app.config.database_url, options="-c log_min_messages=panic"
    ) as connection:
        await connection.execute(
            sql.SQL("INSERT INTO {} VALUES (%s)").format(sql.Identifier(table)), [secret]
        )
