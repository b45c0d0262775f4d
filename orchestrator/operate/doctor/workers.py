"""Checks of the workers: are they alive, is one of them the leader, do they have one version."""

from orchestrator.operate.doctor.finding import Examination, Finding, fail, named, ok, warn
from orchestrator.postgres import statement
from orchestrator.version import __version__

WORKERS = statement.load(__file__, "workers.sql", "workers")
LEADER = statement.load(__file__, "workers.sql", "leader")
BLOCKED = statement.load(__file__, "workers.sql", "blocked")

# Workers that have just started have not elected a leader yet.
ELECTION_SECONDS = 15.0


def workers(patient: Examination) -> Finding:
    """At least one worker is alive."""
    crew = patient.rows(WORKERS)
    if crew:
        return ok(f"{len(crew)} live")
    _, work = patient.row(LEADER)
    if work:
        return fail("no worker lives, and tasks wait", "Start one: orchestrator worker MODULE:APP")
    return warn("no worker lives (nothing waits at the moment)", "Start one: orchestrator worker MODULE:APP")


def leader(patient: Examination) -> Finding:
    """A worker leads: it takes back the tasks of dead workers, and does the other duties."""
    leads, _ = patient.row(LEADER)
    crew = patient.rows(WORKERS)
    if leads:
        return ok(f"{leads} leads")
    if not crew:
        return warn("nobody leads, since no worker lives", "See `workers`.")
    if max(seconds for *_, seconds in crew) < ELECTION_SECONDS:
        return ok("nobody leads yet: the workers have just started")
    return fail(
        f"nobody leads, though workers live ({len(crew)}): what dead workers hold is not taken back",
        "One of them takes the lead within seconds, unless it cannot write its row: look for errors of the duty "
        "`elect` in their logs, and for who has rows of orchestrator.workers locked (pg_blocking_pids).",
    )


def event_loops(patient: Examination) -> Finding:
    """No handler blocks the event loop of its worker."""
    found = patient.rows(BLOCKED)
    if not found:
        return ok("all turn")
    given_up = [f"{host} pid {pid}" for host, pid, _, lives in found if not lives]
    blocked = [f"{host} pid {pid} for {round(seconds)} s" for host, pid, seconds, lives in found if lives]
    says = "; ".join(
        f"{what}: {named(names)}"
        for what, names in (
            ("the event loop of a worker is blocked", blocked),
            ("given up within the hour, for a blocked event loop", given_up),
        )
        if names
    )
    advice = (
        "The line `loop blocked` in its log names the types. Make the handler a `def`, or run it with "
        'executor="process"; and set a timeout. A process that is still there has to be ended by hand.'
    )
    return warn(says, advice)


def worker_versions(patient: Examination) -> Finding:
    """All workers and this command have one version."""
    crew = patient.rows(WORKERS)
    versions = sorted({version for _, _, version, *_ in crew})
    if len(versions) > 1:
        says = "; ".join(
            f"{version} ({named([f'{host} pid {pid}' for host, pid, its, *_ in crew if its == version])})"
            for version in versions
        )
        return warn(
            f"workers of {len(versions)} versions live: {says}",
            "Expected during a deployment; afterwards one of them was forgotten.",
        )
    if versions and versions != [__version__]:
        return warn(
            f"the workers are of version {versions[0]}, this command of {__version__}",
            "Use the command of the version that works there.",
        )
    return ok(f"all of {versions[0]}" if versions else "no worker lives")
