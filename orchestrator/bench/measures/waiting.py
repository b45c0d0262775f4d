"""The same drain when each answer takes longer: a long line to the server, or a disk that is slow to confirm.

Ours is compared with ours: two workers, each with a queue of its own, one with the delay and one without, drain by
turns. What is left shows how much of its time a worker spends waiting.
"""

from collections.abc import Iterator

from psycopg import errors, sql

from orchestrator.bench import backlog, sections
from orchestrator.bench.between import Between, NoWayThrough
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round, by_turns

SQL = sections.of(__file__, "waiting.sql")
# Each way, so that a round trip takes 1 ms longer.
DELAY_SECONDS = 0.0005
PROMPT, SLOW = ("default",), ("slow",)
GOAL = Goal(least=0.8)


def network(ground: Ground) -> Iterator[Result | Skipped]:
    """Drain over a line whose round trip takes 1 ms longer. Without the delay also through a proxy, whose work would
    else be counted as delay where there are few cores."""
    line = "drain, +1 ms network"
    try:
        with Between(ground) as near, Between(ground, delay_seconds=DELAY_SECONDS) as far:
            backlog.shut(ground.connection, [*PROMPT, *SLOW])
            prompt, slow = (Crew(ground, queues=q, info=i.info) for q, i in ((PROMPT, near), (SLOW, far)))
            with prompt, slow:
                yield compared(ground, line, prompt, slow, "ours through a proxy")
    except NoWayThrough as error:
        yield Skipped(line, str(error))


def commit(ground: Ground) -> Iterator[Result | Skipped]:
    """Drain where each durable commit takes 2 ms longer: commit_delay, which counts with fsync only."""
    line, connection = "drain, commit_delay 2 ms", ground.connection
    if connection.execute(SQL["fsync"]).fetchone() == ("off",):
        yield Skipped(line, "fsync is off on this server, and commit_delay counts only with it")
        return
    backlog.shut(connection, [*PROMPT, *SLOW])
    # Sessions keep the settings that they began with: this worker starts before, the other one after.
    with Crew(ground, queues=PROMPT) as prompt:
        try:
            for name in ("delay", "siblings"):
                connection.execute(on_database(ground, name))
        except errors.InsufficientPrivilege:
            yield Skipped(line, "the role may not set commit_delay: that takes a superuser, or a GRANT SET")
            return
        try:
            with Crew(ground, queues=SLOW) as slow:
                yield compared(ground, line, prompt, slow, "ours without it")
        finally:
            connection.execute(on_database(ground, "reset"))


def compared(ground: Ground, line: str, prompt: Crew, slow: Crew, floor_is: str) -> Result:
    """Drain by turns."""
    tasks = ground.sizes.drain

    def drain(crew: Crew, queues: tuple[str, ...]) -> Round:
        backlog.clear(ground.connection)
        backlog.fill(ground.connection, "bench.nothing", tasks, queues=list(queues))
        return backlog.drain(ground, crew, tasks, queues)

    own, least = by_turns(ground, line, lambda: drain(slow, SLOW), lambda: drain(prompt, PROMPT))
    backlog.clear(ground.connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=floor_is, tasks=tasks, goals=(GOAL,)
    )


def on_database(ground: Ground, section: str) -> sql.Composed:
    name = sql.Identifier(ground.connection.info.dbname)
    return sql.SQL(SQL[section].decode()).format(name)
