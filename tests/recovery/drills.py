"""The drills: each row of the table of recovery, done to real processes with the default settings, and timed.

A drill takes its stage and how often to repeat, and notes what it measured under the name of a bar. What must hold
besides the time (each task once more and no more, the cause on record, nobody falsely declared dead) it asserts.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString
from uuid import UUID

from tests import bouncer
from tests.recovery.gate import Gate
from tests.recovery.stage import Stage, said
from tests.worker.processes import Process

Note = Callable[[str, float], None]
FULL = 20
FROZEN_SECONDS = 60.0
STORM_SECONDS = 5.0
STORM_PATIENCE_SECONDS = 300.0
UNFINISHED: LiteralString = "SELECT 1 FROM orchestrator.tasks_live WHERE id = ANY (%s) LIMIT 1"
# From each loss of a task that had two by then to its next start.
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

BARS = {
    "worker killed: its tasks run again": 4.0,
    "leader killed: its tasks run again": 10.0,
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


def worker_killed(stage: Stage, rounds: int, note: Note) -> None:
    """A worker with its slots full is killed, while another one leads; its successor is the next victim."""
    leader = stage.hire("-q", "nobody's")
    stage.until(lambda: stage.leads(leader), "it leads")
    victim = stage.hire("-q", "default")
    for _ in range(rounds):
        victim = killed(stage, victim, "worker killed: its tasks run again", note)


def worker_without_beacon(stage: Stage, rounds: int, note: Note) -> None:
    """The same, where the victim's way leads through PgBouncer, so that it holds no beacon."""
    leader = stage.hire("-q", "nobody's")
    stage.until(lambda: stage.leads(leader), "it leads")
    with bouncer.bouncing(stage.url, stage.folder("bouncer"), pool_size=20) as url:
        victim = stage.hire("-q", "default", url=url, lit=False)
        name = "worker without a beacon killed: its tasks run again"
        for _ in range(rounds):
            victim = killed(stage, victim, name, note, url=url)


def killed(stage: Stage, victim: Process, name: str, note: Note, *, url: str | None = None) -> Process:
    """Kill this worker while its slots are full; return the one that has run its tasks again."""
    ids = stage.run_all("drill.hold", FULL)
    rescuer = stage.hire("-q", "default", url=url, lit=url is None)
    lost_id = stage.id_of(victim)
    victim.kill()
    at = time.time()
    for result in stage.results(ids):
        note(name, result - at)
    assert stage.losses(ids) == [(2, 1)] * FULL
    assert stage.lost(ids) == [(task_id, 1, lost_id) for task_id in ids]
    return rescuer


def leader_killed(stage: Stage, rounds: int, note: Note) -> None:
    """The leader itself, with its slots full: first somebody must lead, then take back."""
    victim = stage.hire("-q", "default")
    stage.until(lambda: stage.leads(victim), "it leads")
    for _ in range(rounds):
        ids = stage.run_all("drill.hold", FULL)
        rescuer = stage.hire("-q", "default")
        with orphans(stage):
            victim.kill()
            at = time.time()
            for result in stage.results(ids):
                note("leader killed: its tasks run again", result - at)
            note("leader killed: next duty done", said(rescuer, "tasks recovered", after=at)[0] - at)
        assert stage.losses(ids) == [(2, 1)] * FULL
        stage.until(lambda r=rescuer: stage.leads(r), "it leads")  # type: ignore[misc]
        victim = rescuer


def leader_and_worker_killed_together(stage: Stage, rounds: int, note: Note) -> None:
    """Again and again the leader, which is loaded like all the others, and another worker at the same moment: any, or
    the deputy, which watches the leader. New ones start only when both are declared dead: they would look at once."""
    for _ in range(4):
        stage.hire("-q", "default", "-c", str(FULL))
    for n in range(4 * rounds):
        leaders = stage.until_found(
            "SELECT pid, id FROM orchestrator.workers WHERE is_leader AND state = 'running'"
        )
        others = stage.ask(
            "SELECT pid, id FROM orchestrator.workers WHERE NOT is_leader AND state = 'running' ORDER BY id"
        )
        name = "deputy" if n % 2 else "worker"
        victims = [leaders[0], others[0] if name == "deputy" else others[-1]]
        stage.enqueue("drill.nap", 100, seconds=0.5)
        for process in stage.hired:
            if process.pid in {pid for pid, _ in victims}:
                process.kill()
        at = time.monotonic()
        stage.until(lambda v=victims: are_dead(stage, v), "both are declared dead")  # type: ignore[misc]
        note(f"leader and {name} killed together: both declared dead", time.monotonic() - at)
        for _ in victims:
            stage.hire("-q", "default", "-c", str(FULL))


def are_dead(stage: Stage, workers: list[tuple[int, UUID]]) -> bool:
    """Tell whether all of these are declared dead."""
    ids = [worker_id for _, worker_id in workers]
    return not stage.ask(
        "SELECT 1 FROM orchestrator.workers WHERE id = ANY (%s) AND state <> 'dead' LIMIT 1", ids
    )


def storm(stage: Stage, rounds: int, note: Note) -> None:
    """Each five seconds the leader and another worker are killed, and two new ones started; meanwhile tasks of half a
    second fill all slots. Nothing waits for anything. Then all tasks complete, and none was guilty."""
    for _ in range(4):
        stage.start("-q", "default", "-c", str(FULL // 2))
    ids = stage.enqueue("drill.nap", 300 * rounds, seconds=0.5)
    killed: dict[UUID, float] = {}
    for _ in range(5 * rounds):
        due = time.monotonic() + STORM_SECONDS
        leaders = stage.ask("SELECT pid, id FROM orchestrator.workers WHERE state = 'running' AND is_leader")
        others = stage.ask(
            "SELECT pid, id FROM orchestrator.workers WHERE state = 'running' AND NOT is_leader ORDER BY random()"
        )
        running = {process.pid: process for process in stage.hired if process.popen.poll() is None}
        for pid, worker_id in [*leaders, *(other for other in others if other[0] in running)][:2]:
            if pid in running:
                killed[worker_id] = time.time()
                running[pid].kill()
                stage.start("-q", "default", "-c", str(FULL // 2))
        time.sleep(max(0.0, due - time.monotonic()))
    stage.until(lambda: not stage.ask(UNFINISHED, ids), "all have ended", seconds=STORM_PATIENCE_SECONDS)
    for worker_id, recovered_at in stage.ask(
        "SELECT worker_id, extract(epoch FROM finished_at)::float8 FROM orchestrator.attempts"
        " WHERE outcome = 'lost' AND error ->> 'class' = 'WorkerLost'"
    ):
        if worker_id in killed:
            note(
                "storm (leader and worker killed each 5 s): tasks taken back",
                recovered_at - killed[worker_id],
            )
    for (seconds,) in stage.ask(SUSPECTS_WAITED):
        note("storm: a suspect waits for its turn", seconds)
    note("storm: innocents that became dead letters", float(stage.statuses(ids).get("dead_letter", 0)))


def leader_resigns(stage: Stage, rounds: int, note: Note) -> None:
    """The leader is told to stop, while there is always something to do for whoever leads."""
    leader = stage.hire("-q", "default")
    stage.until(lambda: stage.leads(leader), "it leads")
    for _ in range(rounds):
        successor = stage.hire("-q", "default")
        with orphans(stage):
            stage.until(lambda p=leader: said(p, "tasks recovered"), "it does its duty")  # type: ignore[misc]
            at = time.time()
            leader.signal(signal.SIGTERM)
            assert leader.wait() == 0, leader.log
            stage.until(lambda p=successor: said(p, "tasks recovered"), "its successor does")  # type: ignore[misc]
        note("leader resigns: next duty done", said(successor, "tasks recovered")[0] - at)
        leader = successor


def worker_frozen(stage: Stage, rounds: int, note: Note) -> None:
    """A worker with its slots full is stopped for a minute; what it held runs elsewhere, then it goes on."""
    leader = stage.hire("-q", "nobody's")
    stage.until(lambda: stage.leads(leader), "it leads")
    victim = stage.hire("-q", "default,own")
    for _ in range(rounds):
        freeze(stage, victim, "worker", note)


def leader_frozen(stage: Stage, rounds: int, note: Note) -> None:
    """The same with the leader; meanwhile nothing but duties waits for the next one."""
    for n in range(rounds):
        victim = stage.hire("-q", f"default,own,{n}")
        stage.until(lambda v=victim: stage.leads(v), "it leads", of=victim)  # type: ignore[misc]
        freeze(stage, victim, "leader", note)
        for process in stage.hired:
            process.kill()
        stage.ask("UPDATE orchestrator.workers SET state = 'stopped', is_leader = false, leader_until = NULL")


def freeze(stage: Stage, victim: Process, who: str, note: Note) -> None:
    """Stop a process for a minute, with handlers that would end meanwhile, and let it go on."""
    # Their handlers are over when it comes to: late outcomes, each of them.
    ids = stage.run_all("drill.hold", FULL, seconds=FROZEN_SECONDS / 2)
    rescuer = stage.hire("-q", "default,rescuer")
    with orphans(stage):
        at = time.time()
        victim.signal(signal.SIGSTOP)
        if who == "leader":
            leaderless(stage, at, note)
            stage.until(lambda: said(rescuer, "tasks recovered", after=at), "there is a leader")
            note("leader frozen: next duty done", said(rescuer, "tasks recovered", after=at)[0] - at)
        rerun = [result - at for result in stage.results(ids)]
    if who == "worker":
        for seconds in rerun:
            note("worker stopped (SIGSTOP): its tasks run again", seconds)
    before = stage.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    (own,) = stage.enqueue("drill.stamp", queue="own")
    time.sleep(max(0.0, at + FROZEN_SECONDS - time.time()))
    again = time.time()
    victim.signal(signal.SIGCONT)
    ((moment, pid),) = stage.results([own])
    note(f"{who} frozen for a minute: at work again", moment - again)
    assert pid == victim.pid
    stage.until(lambda: refused(victim) >= FULL, "every late write is refused and counted", of=victim)
    after = stage.ask("SELECT * FROM orchestrator.tasks WHERE id = ANY (%s) ORDER BY id", ids)
    assert (before, [(2, 1)] * FULL) == (after, stage.losses(ids))
    rescuer.signal(signal.SIGTERM)
    assert rescuer.wait() == 0, rescuer.log


def refused(process: Process) -> int:
    """Count the late outcomes that it says were refused, and the handlers it dropped before they had one."""
    told = [line for line in process.events() if line["event"] == "worker declared dead"]
    return len(said(process, "stale outcome")) + sum(int(line["dropped"]) for line in told)


def leaderless(stage: Stage, since: float, note: Note) -> None:
    """See claims, retries and delayed starts go on, for the ten seconds of the term."""
    while time.time() < since + 10.0:
        begun = time.time()
        (plain,) = stage.enqueue("drill.stamp", queue="rescuer")
        (delayed,) = stage.enqueue("drill.stamp", queue="rescuer", delay=0.5)
        (retried,) = stage.enqueue("drill.stumble", queue="rescuer", after=0.5)
        (at, _), (later, _), again = stage.results([plain, delayed, retried])
        note("no leader meanwhile: a claim is late by", at - begun)
        note("no leader meanwhile: a delayed start is late by", later - begun - 0.5)
        note("no leader meanwhile: a retry is late by", again - begun - 0.5)


def black_holed(stage: Stage, rounds: int, note: Note) -> None:
    """Every packet of a worker is dropped; it notices, stops its handlers, and comes back as a new worker."""
    leader = stage.hire("-q", "nobody's")
    stage.until(lambda: stage.leads(leader), "it leads")
    with Gate(stage.url) as gate:
        for _ in range(rounds):
            # A new one each time: who has just told of a lost connection does not tell of the next at once.
            victim = stage.hire("-q", "default", url=gate.url)
            ids = stage.run_all("drill.hold", FULL)
            rescuer = stage.hire("-q", "default")
            old = stage.id_of(victim)
            at = time.time()
            gate.drop()
            for result in stage.results(ids):
                note("worker black-holed: its tasks run again", result - at)
            stage.until(lambda v=victim: said(v, "worker cut off"), "it is cut off")  # type: ignore[misc]
            note("black-holed connection: noticed", said(victim, "connection lost", after=at)[0] - at)
            gate.restore()
            rescuer.signal(signal.SIGTERM)
            assert rescuer.wait() == 0, rescuer.log
            stage.wait_for_ready(victim)
            assert stage.id_of(victim) != old
            assert stage.losses(ids) == [(2, 1)] * FULL
            victim.kill()


def ghost_claim(stage: Stage, rounds: int, note: Note) -> None:
    """The claim is committed, and its answer is lost."""
    with Gate(stage.url) as gate:
        process = stage.hire("-q", "ghosts", url=gate.url)
        for _ in range(rounds):
            while True:
                with stage.connection.transaction():
                    ids = stage.enqueue("drill.stamp", FULL, queue="ghosts")
                    gate.cut_after(b"ghosts")
                at = time.time()
                stage.until(lambda: not gate.after, "an answer is lost")
                results = stage.results(ids)
                # The answer that was lost may be that of a claim that found nothing: then once more.
                if said(process, "ghosts released", after=at):
                    break
            for moment, _ in results:
                note("ghost claim: runs after all", moment - at)
            assert stage.losses(ids) == [(1, 0)] * FULL


@contextmanager
def orphans(stage: Stage) -> Iterator[None]:
    """Let there always be something to take back: one task that nobody's claim holds again at once."""
    task_id, over = stage.orphan(), threading.Event()

    def keep_on() -> None:
        with stage.another() as other:
            while not over.wait(0.01):
                other.orphan_again(task_id)

    thread = threading.Thread(target=keep_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
