"""Checks of notifications, which wake a sleeping worker: does one arrive, and is there room for more."""

import secrets
from contextlib import closing

from orchestrator.operate.doctor.finding import Examination, Finding, fail, ok, warn
from orchestrator.postgres import statement

LISTEN = statement.load(__file__, "notifications.sql", "listen")
RING = statement.load(__file__, "notifications.sql", "ring")
BACKEND = statement.load(__file__, "notifications.sql", "backend")
QUEUE = statement.load(__file__, "notifications.sql", "queue")

HEAR_SECONDS = 3.0
QUEUE_WARN = 0.1
QUEUE_FAIL = 0.5


def notifications(database: Examination) -> Finding:
    """A notification from one session reaches another: the sessions are the server's own, not a pooler's."""
    word = secrets.token_hex(8)
    with closing(database.another()) as listener, closing(database.another()) as ringer:
        listener.execute(LISTEN)
        ringer.execute(RING, {"word": word})
        heard = any(note.payload == word for note in listener.notifies(timeout=HEAR_SECONDS, stop_after=1))
        (backend,) = listener.execute(BACKEND).fetchall()[0]
        pooled = backend != listener.info.backend_pid
    if not heard:
        return warn(
            f"no notification arrives{' through this pooler' if pooled else ''}: workers with this URL look for new "
            "tasks once a second, and a killed worker is noticed after its dead_after_seconds instead of 2 s",
            "Give workers a URL that leads to the server itself, or to a pool in session mode; producers may use this "
            "one.",
        )
    return ok("a notification arrives")


def notification_queue(database: Examination) -> Finding:
    """The queue of notifications has room. If it is full, each commit that notifies fails, also the application's."""
    usage, is_one, oldest, cure = database.row(QUEUE)
    says = f"the queue of notifications is {usage:.0%} full; when it is full, commits that notify fail"
    advice = "A listening session has an open transaction. End it."
    if is_one:
        advice += f" The oldest transaction is the one of {oldest}:"
    found = fail if usage >= QUEUE_FAIL else warn
    if usage >= QUEUE_WARN:
        return found(says, advice, cure if is_one else None)
    return ok("the queue of notifications is empty" if usage == 0 else f"{usage:.2%} full")
