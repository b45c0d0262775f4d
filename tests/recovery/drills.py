"""The drills: each row of the recovery table, with real processes and the default settings, and with measured times.

A drill gets its environment and the number of rounds, and records its measurements under the name of a limit. It
asserts everything except the times: each task runs exactly once more, the cause is recorded, and no live worker is
declared dead.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString
from uuid import UUID

from tests import bouncer
from tests.recovery.environment import Environment, logged
from tests.recovery.gate import Gate
from tests.worker.processes import Process

Note = Callable[[str, float], None]
FULL = 20
FROZEN_SECONDS = 60.0
STORM_SECONDS = 5.0
STORM_PATIENCE_SECONDS = 300.0
UNFINISHED: LiteralString = "SELECT 1 FROM orchestrator.tasks_live WHERE id = ANY (%s) LIMIT 1"
# The time from each loss of a task that is its second or a later one to the task's next start.
SUSPECTS_WAITED: LiteralString = """
SELECT extract(epoch FROM coalesce(l.next_at, t.started_at) - l.finished_at)::float8
FROM (
    SELECT a.task_id, a.finished_at, lead(a.started_at) OVER w AS next_at, row_number() OVER w AS losses
    FROM orchestrator.attempts AS a
    WHERE a.outcome = 'lost' AND a.error ->> 'class' = 'WorkerLost'
    WINDOW w AS (PARTITION BY a.task_id ORDER BY a.id)
) AS l
JOIN orchestrator.tasks AS t ON t.id = l.task_id AND t.status = 'completed'
WHERE l.losses >= 2
"""

LIMITS = {
    "worker killed: its tasks run again": 4.0,
    "leader killed: its tasks run again": 8.0,
    "leader and worker killed together: both declared dead": 8.0,
    "leader and deputy killed together: both declared dead": 8.0,
    "storm (leader and worker killed each 5 s): tasks taken back": 8.0,
    "storm: a suspect waits for its turn": 50.0,
    "storm: innocents that became dead letters": 0.0,
    "worker without a beacon killed: its tasks run again": 35.0,
    "worker stopped (SIGSTOP): its tasks run again": 35.0,
    "worker black-holed: its tasks run again": 35.0,
    "worker frozen for a minute: at work again": 5.0,
    "leader frozen for a minute: at work again": 5.0,
    "ghost claim: runs after all": 10.0,
    "black-holed connection: noticed": 10.0,
    "leader resigns: next duty done": 0.5,
    "leader killed: next duty done": 7.0,
    "leader frozen: next duty done": 17.0,
    "no leader meanwhile: a claim is late by": 1.0,
    "no leader meanwhile: a retry is late by": 1.0,
    "no leader meanwhile: a delayed start is late by": 1.0,
}


def worker_killed(environment: Environment, rounds: int, note: Note) -> None:
    """A worker with full slots is killed while another worker leads. The worker that runs its tasks again is the
    next victim."""
    leader = environment.hire("-q", "unused")
    environment.until(lambda: environment.leads(leader), "it leads")
    victim = environment.hire("-q", "default")
    for _ in range(rounds):
        victim = killed(environment, victim, "worker killed: its tasks run again", note)


def worker_without_beacon(environment: Environment, rounds: int, note: Note) -> None:
    """The same, with the victim behind PgBouncer, so that it holds no beacon."""
    leader = environment.hire("-q", "unused")
    environment.until(lambda: environment.leads(leader), "it leads")
    with bouncer.bouncing(environment.url, environment.folder("bouncer"), pool_size=20) as url:
        victim = environment.hire("-q", "default", url=url, has_beacon=False)
        name = "worker without a beacon killed: its tasks run again"
        for _ in range(rounds):
            victim = killed(environment, victim, name, note, url=url)


def killed(
    environment: Environment, victim: Process, name: str, note: Note, *, url: str | None = None
) -> Process:
    """Kill this worker while its slots are full. Return the worker that has run its tasks again."""
    ids = environment.run_all("drill.hold", FULL)
    rescuer = environment.hire("-q", "default", url=url, has_beacon=url is None)
    lost_id = environment.id_of(victim)
    victim.kill()
    at = time.time()
    for result in environment.results(ids):
        note(name, result - at)
    assert environment.losses(ids) == [(2, 1)] * FULL
    assert environment.lost(ids) == [(task_id, 1, lost_id) for task_id in ids]
    return rescuer


def leader_killed(environment: Environment, rounds: int, note: Note) -> None:
    """The leader is killed, with full slots. First another worker must be elected; then it recovers the tasks."""
    victim = environment.hire("-q", "default")
    environment.until(lambda: environment.leads(victim), "it leads")
    for _ in range(rounds):
        ids = environment.run_all("drill.hold", FULL)
        rescuer = environment.hire("-q", "default")
        with orphans(environment):
            victim.kill()
            at = time.time()
            for result in environment.results(ids):
                note("leader killed: its tasks run again", result - at)
            note("leader killed: next duty done", logged(rescuer, "tasks recovered", after=at)[0] - at)
        assert environment.losses(ids) == [(2, 1)] * FULL
        environment.until(lambda r=rescuer: environment.leads(r), "it leads")  # type: ignore[misc]
        victim = rescuer


def leader_and_worker_killed_together(environment: Environment, rounds: int, note: Note) -> None:
    """The leader, which has tasks like all others, and another worker are killed at the same moment, again and again.
    The other one is any worker, or the deputy, which watches the leader. New workers start only when both are declared
    dead, because a new worker would check for dead workers at once."""
    for _ in range(4):
        environment.hire("-q", "default", "-c", str(FULL))
    for n in range(4 * rounds):
        leaders = environment.until_found(
            "SELECT pid, id FROM orchestrator.workers WHERE is_leader AND state = 'running'"
        )
        others = environment.ask(
            "SELECT pid, id FROM orchestrator.workers WHERE NOT is_leader AND state = 'running' ORDER BY id"
        )
        name = "deputy" if n % 2 else "worker"
        victims = [leaders[0], others[0] if name == "deputy" else others[-1]]
        environment.enqueue("drill.nap", 100, seconds=0.5)
        for process in environment.hired:
            if process.pid in {pid for pid, _ in victims}:
                process.kill()
        at = time.monotonic()
        environment.until(lambda v=victims: are_dead(environment, v), "both are declared dead")  # type: ignore[misc]
        note(f"leader and {name} killed together: both declared dead", time.monotonic() - at)
        for _ in victims:
            environment.hire("-q", "default", "-c", str(FULL))


def are_dead(environment: Environment, workers: list[tuple[int, UUID]]) -> bool:
    """Return whether all of these are declared dead."""
    ids = [worker_id for _, worker_id in workers]
    return not environment.ask(
        "SELECT 1 FROM orchestrator.workers WHERE id = ANY (%s) AND state <> 'dead' LIMIT 1", ids
    )


def storm(environment: Environment, rounds: int, note: Note) -> None:
    """Every five seconds the leader and another worker are killed, and two new ones started. Tasks of half a second
    fill all slots. It does not wait for the recovery. In the end all tasks complete, and no innocent task is a dead
    letter."""
    for _ in range(4):
        environment.start("-q", "default", "-c", str(FULL // 2))
    ids = environment.enqueue("drill.nap", 300 * rounds, seconds=0.5)
    killed: dict[UUID, float] = {}
    for _ in range(5 * rounds):
        due = time.monotonic() + STORM_SECONDS
        leaders = environment.ask(
            "SELECT pid, id FROM orchestrator.workers WHERE state = 'running' AND is_leader"
        )
        others = environment.ask(
            "SELECT pid, id FROM orchestrator.workers WHERE state = 'running' AND NOT is_leader ORDER BY random()"
        )
        running = {process.pid: process for process in environment.hired if process.popen.poll() is None}
        for pid, worker_id in [*leaders, *(other for other in others if other[0] in running)][:2]:
            if pid in running:
                killed[worker_id] = time.time()
                running[pid].kill()
                environment.start("-q", "default", "-c", str(FULL // 2))
        time.sleep(max(0.0, due - time.monotonic()))
    environment.until(
        lambda: not environment.ask(UNFINISHED, ids), "all have ended", seconds=STORM_PATIENCE_SECONDS
    )
    for worker_id, recovered_at in environment.ask(
        "SELECT worker_id, extract(epoch FROM finished_at)::float8 FROM orchestrator.attempts"
        " WHERE outcome = 'lost' AND error ->> 'class' = 'WorkerLost'"
    ):
        if worker_id in killed:
            note(
                "storm (leader and worker killed each 5 s): tasks taken back",
                recovered_at - killed[worker_id],
            )
    for (seconds,) in environment.ask(SUSPECTS_WAITED):
        note("storm: a suspect waits for its turn", seconds)
    note("storm: innocents that became dead letters", float(environment.statuses(ids).get("dead_letter", 0)))


def leader_resigns(environment: Environment, rounds: int, note: Note) -> None:
    """The leader is stopped (SIGTERM), while there is always work for a leader."""
    leader = environment.hire("-q", "default")
    environment.until(lambda: environment.leads(leader), "it leads")
    for _ in range(rounds):
        successor = environment.hire("-q", "default")
        with orphans(environment):
            environment.until(lambda p=leader: logged(p, "tasks recovered"), "it does its duty")  # type: ignore[misc]
            at = time.time()
            leader.signal(signal.SIGTERM)
            assert leader.wait() == 0, leader.log
            environment.until(lambda p=successor: logged(p, "tasks recovered"), "its successor does")  # type: ignore[misc]
        note("leader resigns: next duty done", logged(successor, "tasks recovered")[0] - at)
        leader = successor


def worker_frozen(environment: Environment, rounds: int, note: Note) -> None:
    """A worker with full slots is frozen for a minute. Its tasks run elsewhere, then it goes on."""
    leader = environment.hire("-q", "unused")
    environment.until(lambda: environment.leads(leader), "it leads")
    victim = environment.hire("-q", "default,own")
    for _ in range(rounds):
        freeze(environment, victim, "worker", note)


def leader_frozen(environment: Environment, rounds: int, note: Note) -> None:
    """The same with the leader. Meanwhile only duties wait for the next leader."""
    for n in range(rounds):
        victim = environment.hire("-q", f"default,own,{n}")
        environment.until(lambda v=victim: environment.leads(v), "it leads", of=victim)  # type: ignore[misc]
        freeze(environment, victim, "leader", note)
        for process in environment.hired:
            process.kill()
        environment.ask(
            "UPDATE orchestrator.workers SET state = 'stopped', is_leader = false, leader_until = NULL"
        )


def freeze(environment: Environment, victim: Process, who: str, note: Note) -> None:
    """Freeze a process for a minute, with handlers that would end meanwhile, and resume it."""
    # The handlers' time is over when the process is resumed, so each outcome is late.
    ids = environment.run_all("drill.hold", FULL, seconds=FROZEN_SECONDS / 2)
    rescuer = environment.hire("-q", "default,rescuer")
    with orphans(environment):
        at = time.time()
        victim.signal(signal.SIGSTOP)
        if who == "leader":
            leaderless(environment, at, note)
            environment.until(lambda: logged(rescuer, "tasks recovered", after=at), "there is a leader")
            note("leader frozen: next duty done", logged(rescuer, "tasks recovered", after=at)[0] - at)
        rerun = [result - at for result in environment.results(ids)]
    if who == "worker":
        for seconds in rerun:
            note("worker stopped (SIGSTOP): its tasks run again", seconds)
    before = environment.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    (own,) = environment.enqueue("drill.stamp", queue="own")
    time.sleep(max(0.0, at + FROZEN_SECONDS - time.time()))
    again = time.time()
    victim.signal(signal.SIGCONT)
    ((moment, pid),) = environment.results([own])
    note(f"{who} frozen for a minute: at work again", moment - again)
    assert pid == victim.pid
    environment.until(lambda: refused(victim) >= FULL, "every late write is refused and counted", of=victim)
    after = environment.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    assert (before, [(2, 1)] * FULL) == (after, environment.losses(ids))
    rescuer.signal(signal.SIGTERM)
    assert rescuer.wait() == 0, rescuer.log


def refused(process: Process) -> int:
    """Count the late outcomes that it logged as refused, and the handlers that it had stopped before."""
    told = [line for line in process.events() if line["event"] == "worker declared dead"]
    return len(logged(process, "stale outcome")) + sum(int(line["dropped"]) for line in told)


def leaderless(environment: Environment, since: float, note: Note) -> None:
    """Check that claims, retries and delayed starts go on for the ten seconds of the term."""
    while time.time() < since + 10.0:
        begun = time.time()
        (plain,) = environment.enqueue("drill.stamp", queue="rescuer")
        (delayed,) = environment.enqueue("drill.stamp", queue="rescuer", delay=0.5)
        (retried,) = environment.enqueue("drill.stumble", queue="rescuer", after=0.5)
        (at, _), (later, _), again = environment.results([plain, delayed, retried])
        note("no leader meanwhile: a claim is late by", at - begun)
        note("no leader meanwhile: a delayed start is late by", later - begun - 0.5)
        note("no leader meanwhile: a retry is late by", again - begun - 0.5)


def black_holed(environment: Environment, rounds: int, note: Note) -> None:
    """Every packet of a worker is dropped. It notices that, stops its handlers, and comes back as a new worker."""
    leader = environment.hire("-q", "unused")
    environment.until(lambda: environment.leads(leader), "it leads")
    with Gate(environment.url) as gate:
        for _ in range(rounds):
            # A new worker each time: a worker that has just logged a lost connection does not log the next one at once.
            victim = environment.hire("-q", "default", url=gate.url)
            ids = environment.run_all("drill.hold", FULL)
            rescuer = environment.hire("-q", "default")
            old = environment.id_of(victim)
            at = time.time()
            gate.drop()
            for result in environment.results(ids):
                note("worker black-holed: its tasks run again", result - at)
            environment.until(lambda v=victim: logged(v, "worker cut off"), "it is cut off")  # type: ignore[misc]
            note("black-holed connection: noticed", logged(victim, "connection lost", after=at)[0] - at)
            gate.restore()
            rescuer.signal(signal.SIGTERM)
            assert rescuer.wait() == 0, rescuer.log
            environment.wait_for_ready(victim)
            assert environment.id_of(victim) != old
            assert environment.losses(ids) == [(2, 1)] * FULL
            victim.kill()


def ghost_claim(environment: Environment, rounds: int, note: Note) -> None:
    """The claim is committed, and its answer is lost."""
    with Gate(environment.url) as gate:
        process = environment.hire("-q", "ghosts", url=gate.url)
        for _ in range(rounds):
            while True:
                with environment.connection.transaction():
                    ids = environment.enqueue("drill.stamp", FULL, queue="ghosts")
                    gate.cut_after(b"ghosts")
                at = time.time()
                environment.until(lambda: not gate.after, "an answer is lost")
                results = environment.results(ids)
                # The lost answer may belong to a claim that found no task. Then try once more.
                if logged(process, "ghosts released", after=at):
                    break
            for moment, _ in results:
                note("ghost claim: runs after all", moment - at)
            assert environment.losses(ids) == [(1, 0)] * FULL


@contextmanager
def orphans(environment: Environment) -> Iterator[None]:
    """Make sure that there is always an orphan for the leader to recover. Workers do not claim its queue."""
    task_id, over = environment.orphan(), threading.Event()

    def keep_on() -> None:
        with environment.another() as other:
            while not over.wait(0.01):
                other.orphan_again(task_id)

    thread = threading.Thread(target=keep_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
