"""Features: companions that hear nothing, claims that are lost, and backlogs that starve others."""

from tests.mutants.mutant import mutant

CLAIMS = "orchestrator/worker/feature_claims.py"
INTAKE = "orchestrator/worker/intake.py"
LEDGER = "orchestrator/worker/ledger.py"
IN_A_WORKER = "feature/test_in_a_worker.py"

MUTANTS = (
    mutant(
        "companion-hears-of-no-outcome",
        "orchestrator/finish/outbox.py",
        "                self._ended(ends)\n",
        "                pass\n",
        why="A permit that came back waits for the leader's next duty; a join starts a second late.",
        suites=(f"{IN_A_WORKER}::test_the_companion_brings_permits_back_to_use",),
    ),
    mutant(
        "companion-hears-of-no-own-transaction",
        "orchestrator/services/transaction.py",
        "        if committed and self._ends:\n",
        "        if not committed and self._ends:\n",
        why="The same, where a handler completes its task itself.",
        suites=(f"{IN_A_WORKER}::test_the_companion_brings_permits_back_to_use",),
    ),
    mutant(
        "keys-of-failures-are-not-told",
        "orchestrator/finish/record.py",
        "reduce(or_, keys, NO_ENDS)",
        "NO_ENDS",
        why="A permit of a task that failed waits for the leader's next duty.",
        suites=("stations/test_ends_of_leases.py",),
    ),
    mutant(
        "source-that-fails-ends-the-worker",
        CLAIMS,
        "                events.emit(\n                    events.DutyFailed(source.name",
        "                raise\n                events.emit(\n                    events.DutyFailed(source.name",
        why="A fault of one feature stops the plain tasks of every worker.",
        suites=(f"{IN_A_WORKER}::test_a_part_that_fails_costs_neither_a_task_nor_a_permit",),
    ),
    mutant(
        "tasks-of-a-source-pass-for-marked",
        LEDGER,
        "            self.line.extendleft(reversed(attempts))\n",
        "            for attempt in attempts:\n                attempt.mark_at = math.inf\n"
        "            self.line.extendleft(reversed(attempts))\n",
        why="A task with a lane is never marked running, so the loss of its worker is charged to nobody.",
        suites=("feature/test_killed_workers.py",),
    ),
    mutant(
        "sources-after-the-plain-backlog",
        CLAIMS,
        "return max(0, self._ledger.free) if self._holding else CLAIM_MAX",
        "return CLAIM_MAX",
        why="Plain tasks that were claimed ahead take each slot that gets free, and a limit waits for their backlog.",
        suites=(f"{IN_A_WORKER}::test_plain_tasks_and_those_of_a_source_take_turns",),
    ),
    mutant(
        "plain-tasks-after-the-sources-backlog",
        CLAIMS,
        "        if not plain_holds:\n",
        "        if not plain_holds or self._sources:\n",
        why="While one limit has a backlog, no plain task runs in this worker.",
        suites=(f"{IN_A_WORKER}::test_plain_tasks_and_those_of_a_source_take_turns",),
    ),
)
