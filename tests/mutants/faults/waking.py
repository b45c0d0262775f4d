"""Workers that sleep while there are tasks, or that are woken for nothing."""

from tests.mutants.mutant import mutant

REST = "orchestrator/notify/idle_wait.py"
RING = "orchestrator/schema/functions/ring.sql"
FILL = "orchestrator/schema/functions/fill_new_task.sql"
RUNG = ("schema/test_transitions.py", "schema/test_ways_to_enqueue.py")

MUTANTS = (
    mutant(
        "notify-without-a-poll",
        REST,
        "await wait(self._awake, min(seconds, self._due_at - time.monotonic()))",
        "await wait(self._awake, None)",
        why="One notification that is lost, and a task waits for the next.",
        suites=("worker/test_idle_wait.py", "worker/test_serving.py::test_scheduled_tasks_start_when_due"),
    ),
    mutant(
        "no-look-after-the-mark",
        REST,
        "LOOKS_SECONDS = (0.002, 0.010, 0.050, 0.250)",
        "LOOKS_SECONDS = (60.0,)",
        why="Who looked for sleepers before the mark, and committed after it, rings nobody: its task waits for a poll.",
        suites=("worker/test_idle_wait.py",),
    ),
    mutant(
        "deaf-and-relying-on-its-ears",
        REST,
        "self._poll_seconds = longest if hears else min(longest, DEAF_POLL_SECONDS)",
        "self._poll_seconds = longest",
        why="Behind PgBouncer a task waits five seconds and more.",
        suites=("worker/test_idle_wait.py",),
    ),
    mutant(
        "everybody-is-rung-for",
        RING,
        "w.idle_until > greatest(orchestrator.clock(), ring.due) AND ",
        "",
        why="Every commit waits behind every other's NOTIFY.",
        suites=RUNG,
    ),
    mutant(
        "nobody-is-rung-for",
        RING,
        "w.state IN ('running', 'draining') AND w.idle_until",
        "w.state IN ('stopped') AND w.idle_until",
        why="An idle worker finds a task by its poll, seconds later.",
        suites=RUNG,
    ),
    mutant(
        "the-dead-are-rung-for",
        RING,
        "w.state IN ('running', 'draining') AND w.idle_until",
        "w.idle_until",
        why="A worker that died asleep makes every enqueue notify, for a minute.",
        suites=RUNG,
    ),
    mutant(
        "a-bare-insert-rings-nobody",
        FILL,
        "            IF awaited THEN\n                PERFORM orchestrator.ring(",
        "            IF awaited AND NEW.priority > 100 THEN\n                PERFORM orchestrator.ring(",
        why="What plain SQL enqueues waits for a poll.",
        suites=RUNG,
    ),
    mutant(
        "a-manual-change-wakes-no-worker",
        "orchestrator/schema/functions/notify_workers.sql",
        "WHERE c.worker_id IS NOT NULL",
        "WHERE c.worker_id IS NULL",
        why="A cancelled handler runs on until the next beat.",
        suites=("schema/test_transitions.py",),
    ),
    mutant(
        "listening-never-confirmed",
        "orchestrator/notify/listen.py",
        "            if not self._heard:\n                self._heard, self._deaf = True, False\n",
        "            if self._heard:\n                self._heard, self._deaf = True, False\n",
        why="A worker that hears takes itself for deaf, polls each second, and takes no beacon.",
        suites=(
            "recovery/test_killed.py",
            "worker/test_serving.py::test_a_notification_wakes_an_idle_worker",
        ),
    ),
    mutant(
        "swept-for-others-and-nobody-told",
        "orchestrator/worker/intake.py",
        "        if rings := bool(foreign) or swept.moved > self._ledger.free:",
        "        if rings := bool(foreign) and swept.moved < 0:",
        why="Of a thousand tasks that fall due at once, one worker runs all; and other queues' wait for their polls.",
        suites=("worker/test_serving.py::test_tasks_that_become_due_for_others_wake_them",),
    ),
)
