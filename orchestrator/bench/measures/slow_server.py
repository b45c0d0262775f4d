"""The throughput when each answer takes longer: a slow network to the server, or a slow disk.

Two workers, each with a queue of its own, work by turns: one with the delay and one without it. The ratio shows how
much of its time a worker waits.
"""

from collections.abc import Iterator

from psycopg import errors, sql

from orchestrator.bench import backlog
from orchestrator.bench.environment import Environment
from orchestrator.bench.proxy_process import ProxyFailed, ProxyProcess
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round, by_turns
from orchestrator.bench.workers import Workers
from orchestrator.postgres import statement

SQL = statement.sections(__file__, "slow_server.sql")
# Each way, so that a round trip takes 1 ms longer.
DELAY_SECONDS = 0.0005
PROMPT, SLOW = ("default",), ("slow",)
GOAL = Goal(least=0.8)


def network(environment: Environment) -> Iterator[Result | Skipped]:
    """Work over a network whose round trips take 1 ms longer. The worker without the delay also uses a proxy: with few
    cores, the proxy's own work would otherwise count as delay."""
    line = "throughput, +1 ms network"
    try:
        with ProxyProcess(environment) as near, ProxyProcess(environment, delay_seconds=DELAY_SECONDS) as far:
            backlog.pause(environment.connection, [*PROMPT, *SLOW])
            prompt, slow = (
                Workers(environment, queues=q, info=i.info) for q, i in ((PROMPT, near), (SLOW, far))
            )
            with prompt, slow:
                yield compared(environment, line, prompt, slow, "ours through a proxy")
    except ProxyFailed as error:
        yield Skipped(line, str(error))


def commit(environment: Environment) -> Iterator[Result | Skipped]:
    """Work while each durable commit takes 2 ms longer. commit_delay has an effect only with fsync."""
    line, connection = "throughput, commit_delay 2 ms", environment.connection
    if connection.execute(SQL["fsync"]).fetchone() == ("off",):
        yield Skipped(line, "fsync is off on this server, and commit_delay has no effect without it")
        return
    backlog.pause(connection, [*PROMPT, *SLOW])
    # A session keeps the settings of its start. So this worker starts before the change, and the other one after it.
    with Workers(environment, queues=PROMPT) as prompt:
        try:
            for name in ("delay", "siblings"):
                connection.execute(on_database(environment, name))
        except errors.InsufficientPrivilege:
            yield Skipped(line, "the role may not set commit_delay; it needs a superuser, or GRANT SET")
            return
        try:
            with Workers(environment, queues=SLOW) as slow:
                yield compared(environment, line, prompt, slow, "ours without it")
        finally:
            connection.execute(on_database(environment, "reset"))


def compared(environment: Environment, line: str, prompt: Workers, slow: Workers, floor_is: str) -> Result:
    """Work by turns."""
    tasks = environment.sizes.work_off

    def work_off(workers: Workers, queues: tuple[str, ...]) -> Round:
        backlog.clear(environment.connection)
        backlog.fill(environment.connection, "bench.nothing", tasks, queues=list(queues))
        return backlog.work_off(environment, workers, tasks, queues)

    own, least = by_turns(environment, line, lambda: work_off(slow, SLOW), lambda: work_off(prompt, PROMPT))
    backlog.clear(environment.connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=floor_is, tasks=tasks, goals=(GOAL,)
    )


def on_database(environment: Environment, section: str) -> sql.Composed:
    name = sql.Identifier(environment.connection.info.dbname)
    return sql.SQL(SQL[section].decode()).format(name)
