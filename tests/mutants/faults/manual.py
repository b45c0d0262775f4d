"""Manual changes that are done by half, or that should be refused."""

from tests.mutants.mutant import mutant

GUARD = "orchestrator/schema/functions/guard_manual_update.sql"
DELETED = "orchestrator/schema/functions/record_manual_delete.sql"
UPDATED = "orchestrator/schema/functions/record_manual_update.sql"
MOVED = ("schema/test_transitions.py", "races/test_claiming.py")

MUTANTS = (
    mutant(
        "a-new-time-and-the-old-place",
        "orchestrator/schema/triggers/tasks_place.sql",
        "    OR OLD.run_at IS DISTINCT FROM NEW.run_at\n",
        "",
        why="A retried task keeps its place, and comes before those that have waited longer.",
        suites=("schema/test_position.py",),
    ),
    mutant(
        "requeued-at-the-old-place",
        "orchestrator/schema/functions/guard_manual_update.sql",
        "    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);\n",
        "",
        why="A task that is requeued comes before all others.",
        suites=("schema/test_position.py",),
    ),
    mutant(
        "requeue-keeps-the-lease",
        GUARD,
        "    NEW.lease := NULL;\n    NEW.worker_id := NULL;",
        "    NEW.worker_id := NULL;",
        why="The worker that ran it before may still complete it.",
        suites=MOVED,
    ),
    mutant(
        "cancel-keeps-the-lease",
        GUARD,
        "        NEW.lease := NULL;\n        RETURN NEW;",
        "        RETURN NEW;",
        why="The worker that runs it is told that its outcome was written.",
        suites=MOVED,
    ),
    mutant(
        "requeue-with-used-attempts",
        GUARD,
        "        NEW.attempt := 0;\n",
        "",
        why="A dead letter that is requeued becomes a dead letter at its first failure.",
        suites=MOVED,
    ),
    mutant(
        "completed-manually",
        GUARD,
        "    ELSIF NEW.status = 'pending' THEN",
        "    ELSIF NEW.status IN ('pending', 'completed') THEN",
        why="A slip of an operator completes what never ran.",
        suites=MOVED,
    ),
    mutant(
        "delete-keeps-the-key",
        DELETED,
        "    WHERE k.type = b.type AND k.key = b.idempotency_key AND k.task_id = b.id;",
        "    WHERE k.type = b.type AND k.key = b.idempotency_key AND k.task_id <> b.id;",
        why="A key that nobody has cannot be taken, or another's is freed.",
        suites=("schema/test_idempotency.py", "schema/test_transitions.py"),
    ),
    mutant(
        "manual-changes-leave-no-record",
        UPDATED,
        "    WHERE a IS DISTINCT FROM b\n",
        "    WHERE a.priority IS DISTINCT FROM b.priority\n",
        why="A task runs twice, and no record says that an operator requeued it.",
        suites=("schema/test_transitions.py",),
    ),
    mutant(
        "retention-without-its-period",
        "orchestrator/schema/functions/purge_dead_letters.sql",
        "AND (t.queue, t.finished_at) < (p.queue, p.kept_since)",
        "AND (t.queue, t.finished_at) < (p.queue, orchestrator.clock())",
        why="Dead letters are gone before anybody has looked at them.",
        suites=("maintain/test_retention.py",),
    ),
    mutant(
        "leaf-dropped-by-the-shortest-period",
        "orchestrator/schema/functions/drop_old_partition.sql",
        "SELECT least(orchestrator.clock() - interval '7 days', min(orchestrator.kept_since(q.keep_finished)))",
        "SELECT greatest(orchestrator.clock() - interval '7 days', max(orchestrator.kept_since(q.keep_finished)))",
        why="One queue's retention takes every queue's finished tasks.",
        suites=("maintain/test_partitions.py",),
    ),
    mutant(
        "definer-without-its-path",
        "orchestrator/schema/functions/notify_workers.sql",
        "SET search_path = pg_catalog, orchestrator, pg_temp\n",
        "",
        why="Who may call it runs its own functions as the owner.",
        suites=("schema/test_roles.py",),
    ),
    mutant(
        "clock-that-moves",
        "orchestrator/schema/functions/clock.sql",
        "LANGUAGE sql STABLE",
        "LANGUAGE sql VOLATILE",
        why="The claim becomes a sequential scan, and one statement knows two times.",
        suites=("schema/test_roles.py", "stations/test_plans.py"),
    ),
)
