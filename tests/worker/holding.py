"""A ledger that holds given tasks, beside no running worker."""

from collections.abc import Iterable

from orchestrator.finish import Outbox
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome
from orchestrator.worker.ledger import Ledger


def unsent() -> Outbox:
    """Return an outbox that keeps what it gets: its session is never opened."""
    return Outbox(Session("", purpose="outcomes"), limit=1000, put_off=lambda: None)


def holding(tasks: Iterable[Claimed] = (), *, slots: int = 10, outbox: Outbox | None = None) -> Ledger:
    """Return a ledger that holds these tasks."""
    ledger = Ledger(slots, outbox or unsent(), freed=lambda: None)
    ledger.enter([Outcome(task) for task in tasks])
    return ledger
