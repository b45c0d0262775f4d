"""Checks of the server itself: its version, the durability of commits, and harmful settings."""

from orchestrator.operate.doctor.finding import Examination, Finding, fail, ok, warn
from orchestrator.postgres import statement
from orchestrator.schema.migrate import OLDEST_SERVER

SETTINGS = statement.load(__file__, "server.sql", "settings")
RECOVERY = statement.load(__file__, "server.sql", "recovery")
TRANSACTION_IDS = statement.load(__file__, "server.sql", "transaction_ids")

# PostgreSQL refuses to write at two billion. It starts vacuums against wraparound at 200 million, and warns when 40
# million are left.
TRANSACTION_IDS_WARN = 1_000_000_000
TRANSACTION_IDS_FAIL = 1_800_000_000

DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
# Settings that a worker does not set for its own sessions, and the harm of a value that is not PostgreSQL's default.
HARM = {
    "idle_session_timeout": "ends the session in which a worker listens whenever nothing happens",
    "transaction_timeout": "ends handlers' transactions, migrations and retention in the middle",
    "default_transaction_isolation": "makes claims and outcomes fail with 40001, and be tried again and again",
}


def server_version(patient: Examination) -> Finding:
    """15 or newer."""
    number = patient.connection.info.server_version
    version = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number < OLDEST_SERVER * 10_000:
        return fail(
            f"{version}; orchestrator needs {OLDEST_SERVER} or newer", "Upgrade the server (pg_upgrade)."
        )
    return ok(version)


def takes_writes(patient: Examination) -> Finding:
    """A primary, and sessions that may write."""
    (standby,) = patient.row(RECOVERY)
    if standby:
        return fail("this server is a standby: workers can do nothing here", "Name the primary in the URL.")
    if settings(patient, "default_transaction_read_only")["default_transaction_read_only"] == "on":
        return fail(
            "sessions may not write: default_transaction_read_only is on",
            "Let them write: for the server as here, or for a role or database (\\drds in psql tells).",
            reset("default_transaction_read_only"),
        )
    return ok("a primary, open for writes")


def durability(patient: Examination) -> Finding:
    """The server keeps every commit that it confirms."""
    found = settings(patient, *DURABLE)
    for name in ("fsync", "full_page_writes"):
        if found[name] == "off":
            return fail(
                f"{name} is off: after a power cut the whole database may be beyond repair",
                "Turn it on. (Off is for servers that are thrown away, those of tests.)",
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();",
            )
    if found["synchronous_commit"] == "off":
        return warn(
            "synchronous_commit is off: a crash forgets tasks that were enqueued and outcomes that were recorded a "
            "moment ago; the tasks of the latter run again",
            "Turn it on: workers turn it off by themselves where nothing is lost by it.",
            reset("synchronous_commit"),
        )
    return ok("fsync and full_page_writes are on, commits wait for the disk")


def session_settings(patient: Examination) -> Finding:
    """No setting harms workers that they do not override."""
    rows = patient.rows(SETTINGS, {"names": list(HARM)})
    hurting = [(name, value, cure) for name, value, harmless, cure in rows if value != harmless]
    if not hurting:
        return ok("none that hurts workers")
    says = "; ".join(f"{name} is {value}: it {HARM[name]}" for name, value, _ in hurting)
    return warn(
        says,
        "Reset it for the roles that workers and producers log in as, where it is not meant for them.",
        "\n".join(cure for *_, cure in hurting),
    )


def transaction_ids(patient: Examination) -> Finding:
    """The transaction ids are far from wraparound."""
    age, cure = patient.row(TRANSACTION_IDS)
    says = f"the oldest unfrozen row may be {age:,} transactions old; at 2,147,483,647 the server stops"
    advice = "Let a vacuum freeze the tables, and look who holds it back (horizon)."
    if age >= TRANSACTION_IDS_FAIL:
        return fail(says, advice, cure)
    if age >= TRANSACTION_IDS_WARN:
        return warn(says, advice, cure)
    return ok(f"the wraparound is far: {age:,} of 2,147,483,647 are used")


def settings(patient: Examination, *names: str) -> dict[str, str]:
    """Return the settings that this version of PostgreSQL has."""
    return {name: value for name, value, *_ in patient.rows(SETTINGS, {"names": list(names)})}


def reset(name: str) -> str:
    return f"ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
