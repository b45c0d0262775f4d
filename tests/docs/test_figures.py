"""Figures in the explanations are equal to the figures in the code: a change in the code changes the page too."""

import pytest

from orchestrator.config import Config
from orchestrator.finish import outbox
from orchestrator.lead import leader
from orchestrator.notify import idle_wait
from orchestrator.worker import claim_size, end_attempts, ledger
from tests.docs.pages import REPOSITORY

MB = 1_000_000
PATH = "docs/explanation/path-of-a-task.md"
DELIVERY = "docs/explanation/delivery.md"
FIGURES = [
    (PATH, f"One statement claims up to {claim_size.CLAIM_MAX:,} tasks"),
    (PATH, f"at most {claim_size.AHEAD_MAX:,}"),
    (
        PATH,
        f"still waits after {'a second' if end_attempts.STALE_SECONDS == 1 else end_attempts.STALE_SECONDS} goes back",
    ),
    (PATH, f"up to {outbox.BATCH_SIZE:,} together, or {outbox.BATCH_BYTES // MB} MB"),
    (PATH, f"or {outbox.BYTES_MAX // MB} MB of results"),
    (PATH, f"One look at all of them, every {end_attempts.WATCH_SECONDS * 1000:g} ms"),
    (PATH, f"have run for more than {ledger.MARK_SECONDS * 1000:g} ms"),
    (PATH, f"({idle_wait.DENSE:g} a second and more)"),
    (PATH, f"wake it for the next {idle_wait.MARK_SECONDS:g} s"),
    (PATH, f"writes a heartbeat every {Config().heartbeat_seconds:g} s"),
    (PATH, f"lost for {leader.BEACON_GRACE_SECONDS:g} s"),
    (
        PATH,
        f"without a heartbeat for their `dead_after_seconds`, {Config().dead_after_seconds:g} s by default",
    ),
    (PATH, f"look every {leader.WATCH_SECONDS:g} s"),
    (DELIVERY, f"within {Config().poll_seconds:g} s"),
    (DELIVERY, f"stands still for more than {Config().dead_after_seconds:g} s"),
    (DELIVERY, f"running tasks get the grace ({Config().grace_seconds:g} s)"),
]


@pytest.mark.parametrize(("page", "words"), FIGURES)
def test_a_page_has_the_figure_of_the_code(page: str, words: str) -> None:
    """The page has the figure in this sentence, wherever the lines break."""
    assert words in " ".join((REPOSITORY / page).read_text().split())
