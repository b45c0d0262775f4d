"""Checks of our own schema: is it complete, do statements use its indexes, is it vacuumed."""

from orchestrator.errors import SchemaError
from orchestrator.operate.doctor.finding import Examination, Finding, fail, ok, warn
from orchestrator.postgres import statement
from orchestrator.schema import compatibility, migrate

REVISION = statement.load(__file__, "tables.sql", "revision")
ROLES = statement.load(__file__, "tables.sql", "roles")
INDEXES = statement.load(__file__, "indexes.sql")
AUTOVACUUM = statement.load(__file__, "autovacuum.sql")
DEAD_ROWS = statement.load(__file__, "tables.sql", "dead_rows")
INDEX_BLOAT = statement.load(__file__, "tables.sql", "index_bloat")
DAY_LEAVES = statement.load(__file__, "tables.sql", "day_leaves")

# A busy hour leaves so many dead rows between two vacuums. Claims become slow only if the dead rows stay.
DEAD_ROWS_WARN = 100_000
VACUUMED_SECONDS = 600
# PostgreSQL uses the free space in an index again. A rebuild pays only if the index is large and mostly empty.
BLOAT_BYTES_MIN = 256 * 2**20
BLOAT_TIMES = 8
ENTRY_BYTES = 64
LEAVES_AHEAD_WARN = 2


def schema(database: Examination) -> Finding:
    """The schema is at the revision of this version."""
    try:
        compatibility.require_revision(database.connection)
    except SchemaError as error:
        return fail(str(error), "Without it only the server can be checked.")
    (revision,) = database.row(REVISION)
    if migrate.is_behind(revision):
        return warn(
            f"the schema is at revision {revision}; this version brings {migrate.head()}",
            "Run `orchestrator migrate`. Workers of both versions can run meanwhile.",
        )
    return ok(f"at revision {revision}")


def roles(database: Examination) -> Finding:
    """The roles that get the grants exist."""
    missing, cure = database.row(ROLES)
    if missing:
        return warn(
            f"this server has no role {', '.join(missing)}: its rights cannot be granted",
            "Create it as a superuser, then run `orchestrator migrate` again for the grants.",
            cure,
        )
    return ok("all four exist")


def copy(database: Examination) -> Finding:
    """The database is not a copy that has not been resumed."""
    if (came_from := compatibility.origins(database.connection)) is not None:
        return fail(
            f"this database is a copy ({came_from}): no task runs here until an operator resumes it",
            "Make sure that no worker runs these tasks in the original, then: orchestrator resume --after-restore",
        )
    return ok("no: the tasks are at home here")


def indexes(database: Examination) -> Finding:
    """Every index exists and is valid."""
    rows = database.rows(INDEXES)
    if not rows:
        return ok("all exist and are valid")
    says = ", ".join(f"{name} is {'not valid' if there else 'missing'}" for name, there, _ in rows)
    cures = "\n".join(cure for *_, cure in rows)
    return fail(says, "Build it. That takes a while, and workers go on meanwhile:", cures)


def claim_plan(database: Examination) -> Finding:
    """Claims find ready tasks by their index."""
    faults = database.faults_of_claim(database.connection)
    if faults:
        return fail(
            f"a claim does not use its index: {', '.join(faults)}",
            "See `indexes`. If all of them exist, renew the statistics: ANALYZE orchestrator.tasks_live;",
        )
    return ok("a claim finds its tasks by tasks_live_claim_idx")


def autovacuum(database: Examination) -> Finding:
    """Autovacuum removes dead rows."""
    is_on, counts, turned_off, tuned, turn_on, tune = database.row(AUTOVACUUM)
    if not (is_on and counts):
        name = "track_counts" if is_on else "autovacuum"
        return fail(
            f"{name} is off: dead rows stay, and claims become slower and slower",
            "Turn it on:",
            f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();",
        )
    if turned_off:
        return fail(
            f"autovacuum is turned off for {', '.join(turned_off)}",
            "Turn it on:",
            turn_on,
        )
    if not tuned:
        return warn(
            "tasks_live has lost its own settings: a vacuum starts when a fifth of it is dead, which is far too late",
            "Set them again:",
            tune,
        )
    return ok("on for all tables")


def dead_rows(database: Examination) -> Finding:
    """Dead rows are few, or a vacuum has just removed them."""
    rows = database.rows(DEAD_ROWS)
    piles = [
        (table, dead, cure)
        for table, dead, live, seconds, cure in rows
        if dead >= DEAD_ROWS_WARN and dead > live and (seconds is None or seconds > VACUUMED_SECONDS)
    ]
    if piles:
        says = ", ".join(f"{table} has {dead:,}" for table, dead, _ in piles)
        return warn(
            f"there are many dead rows: {says}, and no vacuum has ended in the last {VACUUMED_SECONDS // 60} minutes",
            "See what holds them (horizon), then:",
            "\n".join(cure for *_, cure in piles),
        )
    return ok(f"{sum(dead for _, dead, *_ in rows):,} in all, and vacuums remove them")


def index_bloat(database: Examination) -> Finding:
    """The indexes are not much larger than their entries need."""
    rows = database.rows(INDEX_BLOAT)
    bloated = [
        (name, size, cure)
        for name, size, entries, cure in rows
        if size >= BLOAT_BYTES_MIN and entries >= 0 and size > BLOAT_TIMES * ENTRY_BYTES * entries
    ]
    if bloated:
        says = ", ".join(f"{name} has {size // 2**20:,} MB" for name, size, _ in bloated)
        return warn(
            f"mostly empty: {says}",
            "The next backlog uses the space again. To return it to the system:",
            "\n".join(cure for *_, cure in bloated),
        )
    return ok(f"{sum(size for _, size, *_ in rows) // 2**20:,} MB in all, none mostly empty")


def day_leaves(database: Examination) -> Finding:
    """The day leaves for today and the next days exist."""
    today, ahead, manually = database.row(DAY_LEAVES)
    advice = "The leader makes them; see `leader`. To make those of today and tomorrow yourself:"
    if not today:
        return fail(
            "tasks_done has no leaf for today: a manual cancel fails; workers make the leaf when they "
            "finish a task",
            advice,
            manually,
        )
    if ahead < LEAVES_AHEAD_WARN:
        return warn(f"tasks_done has leaves for {ahead} days ahead", advice, manually)
    return ok(f"made for {ahead} days ahead")
