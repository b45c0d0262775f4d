"""Two leaders at the same time, and duties without a leader."""

from tests.mutants.mutant import mutant

FENCE = "orchestrator/lead/fence.sql"
BEAT = "orchestrator/worker/beat.sql"
LED = ("lead/test_election.py", "races/test_leading.py")

MUTANTS = (
    mutant(
        "term-not-checked",
        FENCE,
        " AND w.term = %(term)s",
        "",
        why="A duty of a term that ended writes in the next one.",
        suites=LED,
    ),
    mutant(
        "term-that-is-over-still-holds",
        FENCE,
        " AND w.leader_until > orchestrator.clock()",
        "",
        why="A leader that was paused writes as long as nobody has taken the lead.",
        suites=LED,
    ),
    mutant(
        "fence-without-its-lock",
        FENCE,
        "\nFOR KEY SHARE OF w",
        "",
        why="A takeover gets past a duty that is running, and two leaders write.",
        suites=LED,
    ),
    mutant(
        "takeover-without-its-lock",
        "orchestrator/lead/lock_leader.sql",
        "WHERE w.is_leader FOR UPDATE OF w",
        "WHERE w.is_leader",
        why="The moment at which a term is judged lies before the wait for who renews it.",
        suites=LED,
    ),
    mutant(
        "resignation-without-its-lock",
        "orchestrator/lead/lock_own_row.sql",
        "\nFOR UPDATE OF w",
        "",
        why="A resignation gets past its own duty that is running.",
        suites=LED,
    ),
    mutant(
        "resignation-of-any-term",
        "orchestrator/lead/lock_own_row.sql",
        " AND w.term = %(term)s",
        "",
        why="Who resigns late is told that it resigned, or lays a newer term down.",
        suites=LED,
    ),
    mutant(
        "term-renewed-after-its-end",
        BEAT,
        "WHEN w.is_leader AND w.leader_until > orchestrator.clock() AND w.state = 'running'",
        "WHEN w.is_leader AND w.state = 'running'",
        why="A leader that wakes up renews a term that somebody may be taking over.",
        suites=LED,
    ),
    mutant(
        "leader-that-believes-for-too-long",
        "orchestrator/lead/leader.py",
        "time.monotonic() >= self._trusted_until:",
        "time.monotonic() >= self._trusted_until + 3600:",
        why="A leader without a database goes on believing.",
        suites=("lead/test_leader.py::test_a_leader_stops_after_a_term_by_its_own_clock",),
    ),
    mutant(
        "a-rest-that-goes-on-with-tasks",
        "orchestrator/lead/leader.py",
        "self._rests() != rested",
        "False",
        why="The samples of a single worker are a minute old during a burst.",
        suites=("lead/test_leader.py::test_a_leader_that_rests_goes_on_when_it_holds_tasks",),
    ),
    mutant(
        "a-rest-that-outlives-the-term",
        "orchestrator/lead/leader.py",
        "self._leadership != leadership or self._rests()",
        "self._rests()",
        why="A single worker leads again only after its rest.",
        suites=("lead/test_leader.py::test_a_leader_that_rests_stands_again_as_soon_as_its_term_is_over",),
    ),
    mutant(
        "duties-without-a-fence",
        "orchestrator/lead/fence.py",
        "        if connection.execute(FENCE, given).fetchone() is None:\n            raise TermOver\n",
        "        connection.execute(FENCE, given).fetchone()\n",
        why="A paused leader that wakes up writes beside its successor.",
        suites=("lead/test_election.py", "lead/test_leader.py"),
    ),
    mutant(
        "duty-without-a-limit",
        FENCE,
        "    set_config('idle_in_transaction_session_timeout', %(limit)s, true),\n",
        "",
        why="A leader that is paused in the middle of a duty holds its successor up for as long as it sleeps.",
        suites=(
            "lead/test_election.py",
            "recovery/test_cut_off.py::test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_goes_on",
        ),
    ),
    mutant(
        "leader-without-a-beacon-stays",
        "orchestrator/lead/remove_leader.sql",
        "OR w.id = %(gone_id)s AND w.beat_at",
        "OR w.id = %(gone_id)s AND w.id IS NULL AND w.beat_at",
        why="A leader that was killed is replaced only when its term has run out.",
        suites=LED,
    ),
    mutant(
        "leader-that-stops-renews",
        BEAT,
        " AND w.state = 'running' AND NOT %(draining)s\n",
        "\n",
        why="Should its resignation fail, who stops keeps the lead until its process ends, and does no duty.",
        suites=LED,
    ),
    mutant(
        "resigned-and-nobody-told",
        "orchestrator/lead/resign.sql",
        "SELECT pg_notify('orchestrator_workers', 'lead')\nFROM resigned",
        "SELECT pg_notify('orchestrator_workers', 'lead')\nFROM resigned WHERE false",
        why="After each deploy the lead is vacant until somebody's next beat.",
        suites=LED,
    ),
)
