"""A worker dies that held more than one round can take back."""

import time
from contextlib import closing

from tests.recovery.stage import Stage, lines
from tests.stations.crew import Mate

ORPHANS = 50_000
ROUND = 1000
BLOCKED_SECONDS = 1.0


def test_fifty_thousand_orphans_come_back_in_rounds_while_others_go_on_claiming(quick: Stage) -> None:
    """No round takes more than a thousand; a claim next to them is never blocked."""
    quick.ask(
        "INSERT INTO orchestrator.tasks (type, queue) SELECT 'drill.stamp', 'busy' FROM generate_series(1, 5000)"
    )
    quick.ask(
        "INSERT INTO orchestrator.tasks (type, queue) SELECT 'drill.stamp', 'gone' FROM generate_series(1, %s)",
        ORPHANS,
    )
    quick.ask(
        "WITH w AS (INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, beat_at)"
        " VALUES (gen_random_uuid(), 'gone', 1, '0', '{gone}', 1, now() - interval '1 hour') RETURNING id)"
        " UPDATE orchestrator.tasks_live SET lease = 7, worker_id = w.id, attempt = 1, claimed_at = now(),"
        " status = CASE tasks_live.id %% 2 WHEN 0 THEN 'running' ELSE 'claimed' END,"
        " started_at = CASE tasks_live.id %% 2 WHEN 0 THEN now() END FROM w WHERE queue = 'gone'"
    )
    longest = 0.0
    with closing(Mate(quick.url)) as mate:
        leader = quick.start("-q", "nobody's")
        while quick.ask("SELECT 1 FROM orchestrator.tasks_live WHERE lease = 7 LIMIT 1"):
            begun = time.monotonic()
            mate.claim("busy", batch_size=1)
            longest = max(longest, time.monotonic() - begun)

    rounds = [line["returned"] for line in lines(leader) if line["event"] == "tasks recovered"]
    assert (ORPHANS, True) == (sum(rounds), max(rounds) <= ROUND)
    assert longest < BLOCKED_SECONDS
    assert [(0, 0, ORPHANS // 2), (1, 1, ORPHANS // 2)] == quick.ask(
        "SELECT attempt, losses, count(*) FROM orchestrator.tasks WHERE queue = 'gone' GROUP BY 1, 2 ORDER BY 1"
    )
