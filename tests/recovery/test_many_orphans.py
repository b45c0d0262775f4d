"""A dead worker held more tasks than one round can take back."""

import time
from contextlib import closing

import pytest

from tests.recovery.environment import Environment, lines
from tests.stations.worker import Mate
from tests.tiers import long

ROUND = 1000
BLOCKED_SECONDS = 1.0
ALONE = {"ORCHESTRATOR_DEAD_AFTER_SECONDS": "3600", "ORCHESTRATOR_TERM_SECONDS": "10"}


@pytest.mark.parametrize("orphans", [5_000, long(50_000)])
def test_orphans_come_back_in_rounds_while_others_go_on_claiming(quick: Environment, orphans: int) -> None:
    """No round takes back more than a thousand tasks. A claim at the same time is never blocked."""
    quick.ask(
        "INSERT INTO orchestrator.tasks (type, queue) SELECT 'drill.stamp', 'busy' FROM generate_series(1, 5000)"
    )
    quick.ask(
        "INSERT INTO orchestrator.tasks (type, queue) SELECT 'drill.stamp', 'gone' FROM generate_series(1, %s)",
        orphans,
    )
    quick.ask(
        "WITH w AS (INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, state)"
        " VALUES (gen_random_uuid(), 'gone', 1, '0', '{gone}', 1, 'dead') RETURNING id)"
        " UPDATE orchestrator.tasks_live SET lease = 7, worker_id = w.id, attempt = 1, claimed_at = now(),"
        " status = CASE tasks_live.id %% 2 WHEN 0 THEN 'running' ELSE 'claimed' END,"
        " started_at = CASE tasks_live.id %% 2 WHEN 0 THEN now() END FROM w WHERE queue = 'gone'"
    )
    longest = 0.0
    with closing(Mate(quick.url)) as mate:
        # No other worker should be declared dead: the claiming worker here does not beat. A round may take half a term.
        leader = quick.start("-q", "unused", settings=ALONE)

        def all_are_back() -> bool:
            nonlocal longest
            begun = time.monotonic()
            mate.claim("busy", batch_size=1)
            longest = max(longest, time.monotonic() - begun)
            return not quick.ask("SELECT 1 FROM orchestrator.tasks_live WHERE lease = 7 LIMIT 1")

        quick.until(all_are_back, "all are back", of=leader)

    def rounds() -> list[int]:
        return [line["returned"] for line in lines(leader) if line["event"] == "tasks recovered"]

    # The last round is logged after its commit.
    quick.until(lambda: sum(rounds()) >= orphans, "all are reported", of=leader)
    assert (orphans, True) == (sum(rounds()), max(rounds()) <= ROUND)
    assert longest < BLOCKED_SECONDS
    assert [(0, 0, orphans // 2), (1, 1, orphans // 2)] == quick.ask(
        "SELECT attempt, losses, count(*) FROM orchestrator.tasks WHERE queue = 'gone' GROUP BY 1, 2 ORDER BY 1"
    )
