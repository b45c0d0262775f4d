"""Claims that take another worker's tasks, or that use an invalid lease."""

from tests.mutants.mutant import mutant

BATCH = "orchestrator/claim/batch.sql"
CLAIM = "orchestrator/claim/batch.py"
SWEEP = "orchestrator/claim/sweep.sql"
INTAKE = "orchestrator/worker/intake.py"
WORKER = "orchestrator/worker/worker.py"

MUTANTS = (
    mutant(
        "claim-waits",
        BATCH,
        "        FOR UPDATE SKIP LOCKED\n    ) AS found",
        "        FOR UPDATE\n    ) AS found",
        why="One row in an operator's open transaction stops every worker.",
        suites=("stations/test_claim.py", "races/test_claiming.py"),
    ),
    mutant(
        "claim-before-the-beacon",
        INTAKE,
        "if self._idle.may_claim and not self._outbox.is_full else 0",
        "if not self._outbox.is_full else 0",
        also=((" if self.claims.is_on or self._idle.may_claim else None", ""),),
        why="A worker that its first task kills is missed after 30 s, and so is the one that takes its place.",
        suites=("worker/test_first_claim.py",),
    ),
    mutant(
        "claim-after-a-sweep-under-another-id",
        INTAKE,
        " if self.claims.is_on or self._idle.may_claim else None",
        "",
        why="A worker that is declared dead while it sweeps claims before its new beacon is in its row.",
        suites=("worker/test_first_claim.py",),
    ),
    mutant(
        "source-claims-before-the-beacon",
        INTAKE,
        "may = self._idle.may_claim and not (self._stopping or self._outbox.is_full)",
        "may = not (self._stopping or self._outbox.is_full)",
        also=(
            (
                "if self._idle.may_claim and not self._outbox.is_full else 0",
                "if not self._outbox.is_full else 0",
            ),
        ),
        why="A worker that the first task of a feature kills is missed after 30 s.",
        suites=("worker/test_first_claim.py",),
    ),
    mutant(
        "mark-of-the-old-id",
        INTAKE,
        "if written and worker_id == self.worker_id:",
        "if written:",
        why="A worker that is declared dead while it marks itself idle is not rung under its new id.",
        suites=("worker/test_declared_dead.py",),
    ),
    mutant(
        "claim-locks-nothing",
        BATCH,
        "        FOR UPDATE SKIP LOCKED\n    ) AS found",
        "    ) AS found",
        why="Two workers claim the same task.",
        suites=("stations/test_claim.py", "races/test_claiming.py"),
    ),
    mutant(
        "claim-by-age-alone",
        BATCH,
        "ORDER BY ready.position, ready.id",
        "ORDER BY ready.id",
        why="A critical task waits behind a hundred thousand low ones.",
        suites=("stations/test_claim.py",),
    ),
    mutant(
        "claim-by-the-dead",
        BATCH,
        "AND me.state IN ('running', 'draining') AND me.workplace",
        "AND me.workplace",
        why="Who was declared dead, and does not know it yet, claims what it will lose again.",
        suites=("stations/test_claim.py",),
    ),
    mutant(
        "claim-in-a-copy",
        BATCH,
        " AND me.workplace = me.tableoid",
        "",
        why="A restored dump runs the original's tasks a second time.",
        suites=("schema/test_restore.py", "worker/test_restored.py"),
    ),
    mutant(
        "claim-from-a-paused-queue",
        BATCH,
        "'active') <> 'paused'",
        "'active') <> 'stopped'",
        why="A pause holds nothing.",
        suites=("stations/test_claim.py", "races/test_claiming.py"),
    ),
    mutant(
        "claim-counts-no-attempt",
        BATCH,
        "attempt = t.attempt + 1",
        "attempt = greatest(t.attempt, 1)",
        why="A task that always fails runs for ever.",
        suites=("stations/test_claim.py",),
    ),
    mutant(
        "lease-from-a-sequence",
        BATCH,
        "lease = %(lease)s,",
        "lease = nextval('orchestrator.term_seq'),",
        why="A crash forgets an asynchronous claim and the sequence's step, and the next worker gets the same number.",
        suites=("recovery/test_crash.py",),
    ),
    mutant(
        "lease-for-a-whole-life",
        CLAIM,
        "return secrets.randbits(63)",
        "return id(secrets)",
        why="A task that comes back to the same worker is finished by its first attempt.",
        suites=("stations/test_claim.py",),
    ),
    mutant(
        "claim-of-all-queues-in-one-order",
        "orchestrator/worker/claim_pipeline.py",
        "limits=[share.limit for share in shares] if len(shares) > 1 else None,",
        "limits=None,",
        why="The first queue takes every slot, and the second starves.",
        suites=("worker/test_serving.py::test_slots_go_to_the_queues_in_turn",),
    ),
    mutant(
        "sweep-frees-the-future",
        SWEEP,
        "late.status = 'scheduled' AND late.run_at <= orchestrator.clock()",
        "late.status = 'scheduled'",
        why="A task runs before its time.",
        suites=("stations/test_sweep.py",),
    ),
    mutant(
        "sweep-waits",
        SWEEP,
        "        FOR UPDATE SKIP LOCKED",
        "        FOR UPDATE",
        why="An operator's open transaction on one scheduled task stops the sweeps of all workers.",
        suites=("stations/test_sweep.py", "races/test_sweeping.py"),
    ),
    mutant(
        "decode-in-the-batch",
        INTAKE,
        "            if task.type in strange:",
        "            if json.loads(task.payload) is None or task.type in strange:",
        why="One body that Python refuses costs the whole batch, and the worker.",
        suites=(
            "worker/test_rows_it_cannot_run.py::test_an_unreadable_body_costs_one_task_and_not_the_batch",
        ),
        also=(
            ("from collections.abc import Awaitable", "import json\nfrom collections.abc import Awaitable"),
        ),
    ),
    mutant(
        "no-reconcile",
        WORKER,
        "        if report.ghosts:\n",
        "        if report.ghosts and self._stopping.is_set():\n",
        why="What was claimed by a statement whose answer was lost is held by a living worker for ever.",
        suites=(
            "worker/test_connections.py::test_a_claim_whose_answer_was_lost_is_given_back",
            "worker/test_notified.py::test_a_claim_whose_answer_was_lost_goes_back",
        ),
    ),
    mutant(
        "reconcile-at-the-first-word",
        "orchestrator/worker/ghosts.py",
        "if key in self._named]",
        "]",
        why="What was finished while the database answered is taken for a ghost, and released.",
        suites=("worker/test_ghosts.py",),
    ),
    mutant(
        "unknown-type-comes-back-at-once",
        INTAKE,
        "put_back(self._outbox, task, worker_id=worker_id)",
        "self._slots.release(task, worker_id=worker_id)",
        why="A deploy in the wrong order makes a loop as fast as the database can turn.",
        suites=("worker/test_serving.py::test_an_unknown_type_waits_for_a_worker_that_knows_it",),
    ),
)
