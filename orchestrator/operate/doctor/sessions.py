"""Checks of the sessions on the server: how many there are, how they connect, and which of them hold up others."""

from ipaddress import ip_address
from typing import Any

from psycopg import pq

from orchestrator.operate.doctor.finding import Examination, Finding, fail, named, ok, skipped, warn
from orchestrator.postgres import statement

CONNECTIONS = statement.load(__file__, "sessions.sql", "connections")
CLOCK = statement.load(__file__, "sessions.sql", "clock")
SEARCH_PATH = statement.load(__file__, "search_path.sql")
HORIZON = statement.load(__file__, "horizon.sql")

# A worker has about five sessions, and more for the handlers' own transactions.
FREE_FAIL = 5
FREE_SHARE_WARN = 0.2
# Nothing depends on this host's clock; but a wrong one misleads a reader who compares log lines with rows.
SKEW_SECONDS = 5.0
HORIZON_WARN_SECONDS = 300.0
HORIZON_FAIL_SECONDS = 3600.0
# The age in seconds of a replication slot is unknown.
HORIZON_WARN_TRANSACTIONS = 1_000_000
UNVERIFIED = ("disable", "allow", "prefer", "require")


def connections(database: Examination) -> Finding:
    """There is room for more workers, and for an operator's session."""
    used, at_most, who = database.row(CONNECTIONS)
    free = at_most - used
    says = f"{used} of {at_most} sessions are in use"
    advice = "Raise max_connections (needs a restart), or put a pooler before the producers (workers listen directly)."
    if free < FREE_FAIL:
        return fail(says, advice, who)
    if free < at_most * FREE_SHARE_WARN:
        return warn(says, advice, who)
    return ok(says)


def tls(database: Examination) -> Finding:
    """Connections that leave this machine are encrypted, and the server is verified."""
    link = database.connection.pgconn
    options = {option.keyword: option.val for option in link.info}
    mode = (options.get(b"sslmode") or b"prefer").decode()
    return judged(
        database.connection.info.host,
        database.connection.info.hostaddr,
        mode,
        encrypted=bool(link.ssl_in_use),
    )


def judged(host: str, address: str, mode: str, *, encrypted: bool) -> Finding:
    """Judge the connection to a host."""
    if is_here(host, address):
        return ok("the server is on this machine")
    advice = "Use sslmode=verify-full and sslrootcert=FILE in the URL: docs/howto/tls.md."
    if not encrypted:
        return warn(
            f"sessions to {host} are not encrypted: the network can read passwords and payloads", advice
        )
    if mode in UNVERIFIED:
        return warn(
            f"sessions to {host} are encrypted, but with sslmode={mode} another server could answer in its place",
            advice,
        )
    return ok(f"encrypted, and the certificate of the server is verified (sslmode={mode})")


def is_here(host: str, address: str) -> bool:
    """Return whether a session stays on this machine: through a Unix socket or the loopback."""
    if not address:
        return not host or host.startswith(("/", "@")) or host == "localhost"
    return ip_address(address.partition("%")[0]).is_loopback


def search_path(database: Examination) -> Finding:
    """Our sessions call PostgreSQL's own functions, and no function of another role in a schema of their path."""
    backend, schemas, cure = database.row(SEARCH_PATH)
    if backend == database.connection.info.backend_pid:
        return ok("our sessions find functions in pg_catalog only")
    if not schemas:
        return ok(
            "through this pooler the role's own search_path applies, and only its owners may create in its schemas"
        )
    return warn(
        f"through this pooler the role's own search_path applies, and other roles may create functions in "
        f"{named(schemas)}: a worker or a command could call them with its own rights",
        "Give workers and operators a role of their own with a safe path, or the URL of the server itself:",
        cure,
    )


def clock(database: Examination) -> Finding:
    """This host and the server agree on the time."""
    before = database.now()
    (servers,) = database.row(CLOCK)
    after = database.now()
    skew = float(servers) - (before + after) / 2
    # The time of the round trip may have passed all before the server read its clock, or all after.
    certain = max(0.0, abs(skew) - (after - before) / 2)
    if certain >= SKEW_SECONDS:
        return warn(
            f"this host's clock is {abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} the server's",
            "Let both use a time server (chrony). Tasks use the server's clock only, but the times in log lines and "
            "rows differ.",
        )
    return ok(f"this host and the server agree to {max(abs(skew), 0.001):.3f} s")


def driver(_patient: Examination) -> Finding:
    """The driver is the compiled one."""
    if pq.__impl__ == "python":
        return warn(
            "psycopg runs without its compiled part, which is much slower",
            'Install it: pip install "psycopg[binary]", or psycopg[c].',
        )
    return ok(f"psycopg's compiled part ({pq.__impl__}), libpq {pq.version() // 10_000}")


def horizon(database: Examination) -> Finding:
    """No transaction stops vacuum from removing the rows of finished tasks."""
    rows = database.rows(HORIZON)
    blind = bool(rows) and rows[0][0] == "blind"
    holders = [row for row in rows if row[0] != "blind"]
    worst = max(holders, key=lambda row: (weight(row), row[4] or 0), default=None)
    if worst is None or not weight(worst):
        if blind:
            return skipped(
                "this role sees only the snapshots of its own sessions",
                "Let it see all snapshots:",
                rows[0][6],
            )
        return ok("no snapshot is held for long")
    kind, name, who, state, transactions, seconds, cure = worst
    says = f"{kind} {name} ({who}{', ' + state if state else ''}) holds a snapshot"
    says += f" for {seconds:,.0f} s" if seconds is not None else ""
    says += f", {transactions:,} transactions old: dead rows stay in the tables of tasks, and claims become slower"
    found = fail if weight(worst) > 1 else warn
    return found(says, "End it if it is not needed:", cure)


def weight(row: Any) -> int:
    """Return the severity of a holder: 0, 1 or 2."""
    transactions, seconds = row[4], row[5]
    if seconds is None:
        return int((transactions or 0) >= HORIZON_WARN_TRANSACTIONS)
    return int(seconds >= HORIZON_WARN_SECONDS) + int(seconds >= HORIZON_FAIL_SECONDS)
