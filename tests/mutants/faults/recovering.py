"""Recoveries that take from the living, forget the dead, or charge the wrong one."""

from tests.mutants.mutant import mutant

RECOVER = "orchestrator/maintain/recover.sql"
TIMEOUTS = "orchestrator/maintain/timeouts.sql"
RECOVERED = ("stations/test_recover.py", "races/test_recovering.py")

MUTANTS = (
    mutant(
        "recover-without-a-second-look",
        RECOVER,
        "    LIMIT 100\n    FOR UPDATE SKIP LOCKED\n),\ndead AS",
        "    LIMIT 100\n),\ndead AS",
        why="A worker whose beat has just been answered is declared dead.",
        suites=("races/test_recovering.py", "stations/test_recover.py"),
    ),
    mutant(
        "recover-what-is-not-locked",
        RECOVER,
        "        ORDER BY l.id + 0\n        LIMIT %(batch_size)s\n        FOR UPDATE SKIP LOCKED\n    ) AS t",
        "        ORDER BY l.id + 0\n        LIMIT %(batch_size)s\n    ) AS t",
        why="A recovery that was paused takes a task from the worker that has claimed it meanwhile.",
        suites=RECOVERED,
        also=(
            ("t.lease = o.lease\n        AND NOT (o.status", "true\n        AND NOT (o.status"),
            ("t.lease = o.lease\n        AND o.status", "true\n        AND o.status"),
        ),
    ),
    mutant(
        "recover-by-a-clock-that-jumped",
        RECOVER,
        "%(watched_ids)s::uuid[] IS NULL\n",
        "true\n",
        why="The clock jumps an hour, and the whole fleet is declared dead.",
        suites=("recovery/test_clocks.py", *RECOVERED),
    ),
    mutant(
        "recover-after-a-restart",
        RECOVER,
        "\n                AND NOT statement_timestamp() - orchestrator.up_since()"
        "\n                    BETWEEN interval '0' AND make_interval(secs => %(restarted_after_seconds)s)",
        "",
        why="The server comes back after a minute, and everybody is declared dead before the first beat.",
        suites=("stations/test_recover.py",),
    ),
    mutant(
        "recover-though-the-beacon-shines",
        RECOVER,
        "\n                AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon))",
        "",
        why="A worker that has lit its beacon again since the look is declared dead.",
        suites=("races/test_recovering.py", "stations/test_recover.py"),
    ),
    mutant(
        "recover-forgets-who-stopped",
        RECOVER,
        "OR w.id IN (SELECT h.worker_id FROM holder AS h)",
        "OR w.id IS NULL",
        why="A claim that was on its way when its worker deregistered is never taken back.",
        suites=RECOVERED,
    ),
    mutant(
        "recover-forgets-who-has-no-row",
        RECOVER,
        "AND NOT EXISTS (SELECT FROM orchestrator.workers AS w WHERE w.id = h.worker_id)",
        "AND false",
        why="The tasks of a worker whose row somebody deleted are held for ever.",
        suites=RECOVERED,
    ),
    mutant(
        "recovery-charges-what-had-not-begun",
        RECOVER,
        "least(t.attempt, t.max_attempts - 1) ELSE t.attempt - 1 END",
        "least(t.attempt, t.max_attempts - 1) ELSE t.attempt END",
        why="A crash costs the dead worker's whole queue an attempt.",
        suites=RECOVERED,
    ),
    mutant(
        "poison-counted-on-neighbours",
        RECOVER,
        "losses = t.losses + CASE WHEN o.status = 'running' THEN 1 ELSE 0 END",
        "losses = t.losses + 1",
        why="Whoever waited beside a poison three times is buried with it.",
        suites=RECOVERED,
    ),
    mutant(
        "poison-not-counted",
        RECOVER,
        "losses = t.losses + CASE WHEN o.status = 'running' THEN 1 ELSE 0 END",
        "losses = t.losses",
        why="A task that kills its worker kills one after another, until its attempts are used up.",
        suites=RECOVERED,
    ),
    mutant(
        "neighbours-buried",
        RECOVER,
        "AND NOT (o.status = 'running' AND o.losses >= 2)",
        "AND NOT (o.status = 'running' AND (o.losses >= 2 OR o.attempt >= 4))",
        why="A task in its last attempt is buried with the one that killed their worker.",
        suites=RECOVERED,
        also=(
            (
                "AND o.status = 'running' AND o.losses >= 2",
                "AND o.status = 'running' AND (o.losses >= 2 OR o.attempt >= 4)",
            ),
        ),
    ),
    mutant(
        "losses-leave-no-record",
        RECOVER,
        "    FROM orphan AS o\n    WHERE o.status = 'running'\n),\nback",
        "    FROM orphan AS o\n    WHERE o.status = 'lost'\n),\nback",
        why="A task runs a second time, and nobody can tell why.",
        suites=RECOVERED,
    ),
    mutant(
        "timeout-of-who-cannot-be-reached",
        TIMEOUTS,
        " AND w.beat_at > t.started_at + t.timeout + make_interval(secs => %(margin_seconds)s)",
        "",
        why="A worker that was cut off with a finished task loses its outcome.",
        suites=("maintain/test_timeouts.py",),
    ),
    mutant(
        "timeouts-wait",
        TIMEOUTS,
        "    FOR UPDATE SKIP LOCKED\n),\npolicy",
        "    FOR UPDATE\n),\npolicy",
        why="The leader waits behind who is writing its outcome, or behind a hand.",
        suites=("maintain/test_timeouts.py", "races/test_duties.py"),
    ),
    mutant(
        "suspect-among-others",
        "orchestrator/worker/intake.py",
        "elif task.losses >= SUSPECT_LOSSES:",
        "elif task.losses > 3 * SUSPECT_LOSSES:",
        why="A poison takes its neighbours along a third time.",
        suites=("worker/test_told.py::test_a_task_that_cost_two_workers_runs_alone",),
    ),
    mutant(
        "past-not-marked-before-its-start",
        "orchestrator/worker/intake.py",
        "elif not task.has_past:",
        "elif task.losses < SUSPECT_LOSSES:",
        why="A task that kills at once is found claimed each time, is charged nothing, and kills for ever.",
        suites=("worker/test_told.py::test_a_task_with_a_past_is_marked_running_before_it_starts",),
    ),
)
