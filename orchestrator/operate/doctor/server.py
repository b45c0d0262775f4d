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
    "idle_session_timeout": "ends the session in which an idle worker listens",
    "transaction_timeout": "ends long transactions of handlers, migrations and retention",
    "default_transaction_isolation": "makes claims and outcomes fail with 40001, and workers repeat them",
}


def server_version(database: Examination) -> Finding:
    """15 or newer."""
    number = database.connection.info.server_version
    version = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number < OLDEST_SERVER * 10_000:
        return fail(
            f"{version}; orchestrator needs {OLDEST_SERVER} or newer", "Upgrade the server (pg_upgrade)."
        )
    return ok(version)


def takes_writes(database: Examination) -> Finding:
    """A primary, and sessions that may write."""
    (standby,) = database.row(RECOVERY)
    if standby:
        return fail("this server is a standby: workers cannot run here", "Name the primary in the URL.")
    if settings(database, "default_transaction_read_only")["default_transaction_read_only"] == "on":
        return fail(
            "sessions may not write: default_transaction_read_only is on",
            "Reset it for the server as shown here, or for a role or database (\\drds in psql lists those).",
            reset("default_transaction_read_only"),
        )
    return ok("a primary, open for writes")


def durability(database: Examination) -> Finding:
    """The server keeps every commit that it confirms."""
    found = settings(database, *DURABLE)
    for name in ("fsync", "full_page_writes"):
        if found[name] == "off":
            return fail(
                f"{name} is off: a power cut can destroy the whole database",
                "Turn it on. (Off is for temporary servers, such as those of tests.)",
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();",
            )
    if found["synchronous_commit"] == "off":
        return warn(
            "synchronous_commit is off: a crash loses the tasks that were enqueued and the outcomes that were written "
            "just before it; the tasks of lost outcomes run again",
            "Turn it on. Workers turn it off themselves where that loses nothing.",
            reset("synchronous_commit"),
        )
    return ok("fsync and full_page_writes are on, commits wait for the disk")


def session_settings(database: Examination) -> Finding:
    """No setting harms workers that they do not override."""
    rows = database.rows(SETTINGS, {"names": list(HARM)})
    hurting = [(name, value, cure) for name, value, harmless, cure in rows if value != harmless]
    if not hurting:
        return ok("none that harms workers")
    says = "; ".join(f"{name} is {value}: it {HARM[name]}" for name, value, _ in hurting)
    return warn(
        says,
        "Reset it for the roles with which workers and producers log in, unless it is meant for them.",
        "\n".join(cure for *_, cure in hurting),
    )


def transaction_ids(database: Examination) -> Finding:
    """The transaction ids are far from wraparound."""
    age, cure = database.row(TRANSACTION_IDS)
    says = f"the oldest unfrozen row may be {age:,} transactions old; at 2,147,483,647 the server stops"
    advice = "Let a vacuum freeze the tables, and see what holds it back (horizon)."
    if age >= TRANSACTION_IDS_FAIL:
        return fail(says, advice, cure)
    if age >= TRANSACTION_IDS_WARN:
        return warn(says, advice, cure)
    return ok(f"far from wraparound: {age:,} of 2,147,483,647 are used")


def settings(database: Examination, *names: str) -> dict[str, str]:
    """Return the settings that this version of PostgreSQL has."""
    return {name: value for name, value, *_ in database.rows(SETTINGS, {"names": list(names)})}


def reset(name: str) -> str:
    return f"ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
