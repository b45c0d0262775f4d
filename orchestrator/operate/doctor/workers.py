"""Checks of the workers: are they alive, is one of them the leader, do they have one version."""

from orchestrator.operate.doctor.finding import Examination, Finding, fail, named, ok, warn
from orchestrator.postgres import statement
from orchestrator.version import __version__

WORKERS = statement.load(__file__, "workers.sql", "workers")
LEADER = statement.load(__file__, "workers.sql", "leader")
BLOCKED = statement.load(__file__, "workers.sql", "blocked")

# Workers that have just started have not elected a leader yet.
ELECTION_SECONDS = 15.0


def workers(database: Examination) -> Finding:
    """At least one worker is alive."""
    live = database.rows(WORKERS)
    if live:
        return ok(f"{len(live)} live")
    _, work = database.row(LEADER)
    if work:
        return fail("no worker lives, and tasks wait", "Start one: orchestrator worker MODULE:APP")
    return warn("no worker lives (nothing waits at the moment)", "Start one: orchestrator worker MODULE:APP")


def leader(database: Examination) -> Finding:
    """There is a leader: it takes back the tasks of dead workers, and does the other duties."""
    name, _ = database.row(LEADER)
    live = database.rows(WORKERS)
    if name:
        return ok(f"{name} leads")
    if not live:
        return warn("there is no leader, because no worker lives", "See `workers`.")
    if max(seconds for *_, seconds in live) < ELECTION_SECONDS:
        return ok("there is no leader yet: the workers have just started")
    return fail(
        f"there is no leader, although workers live ({len(live)}): the tasks of dead workers are not taken back",
        "A live worker becomes the leader within seconds if it can write its row. Look for errors of the duty `elect` "
        "in the workers' logs, and for sessions that lock rows of orchestrator.workers (pg_blocking_pids).",
    )


def event_loops(database: Examination) -> Finding:
    """No handler blocks the event loop of its worker."""
    found = database.rows(BLOCKED)
    if not found:
        return ok("none is blocked")
    dead = [f"{host} pid {pid}" for host, pid, _, lives in found if not lives]
    blocked = [f"{host} pid {pid} for {round(seconds)} s" for host, pid, seconds, lives in found if lives]
    says = "; ".join(
        f"{what}: {named(names)}"
        for what, names in (
            ("the event loop of a worker is blocked", blocked),
            ("declared dead in the last hour with a blocked event loop", dead),
        )
        if names
    )
    advice = (
        "The line `loop blocked` in its log names the types. Make the handler a `def`, or run it with "
        'executor="process", and set a timeout. If the process still exists, kill it.'
    )
    return warn(says, advice)


def worker_versions(database: Examination) -> Finding:
    """All workers and this command have one version."""
    live = database.rows(WORKERS)
    versions = sorted({version for _, _, version, *_ in live})
    if len(versions) > 1:
        says = "; ".join(
            f"{version} ({named([f'{host} pid {pid}' for host, pid, its, *_ in live if its == version])})"
            for version in versions
        )
        return warn(
            f"workers of {len(versions)} versions live: {says}",
            "That is normal during a deployment. After one, stop the workers of the old version.",
        )
    if versions and versions != [__version__]:
        return warn(
            f"the workers have version {versions[0]}, and this command has {__version__}",
            "Use the command of the workers' version.",
        )
    return ok(f"all have {versions[0]}" if versions else "no worker lives")
