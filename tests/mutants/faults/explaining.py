"""Wrong answers about why a task does not run, or about the state of the server."""

from tests.mutants.mutant import mutant

MUTANTS = (
    mutant(
        "explain-by-a-row-that-nobody-keeps",
        "orchestrator/schema/functions/explain_held.sql",
        "IF NOT orchestrator.is_alive(task.worker_id) THEN",
        "IF NOT task.lives OR task.beat_at < now - task.dead_after THEN",
        why="A task whose worker was killed a moment ago is said to run.",
        suites=("operate/test_explain.py",),
    ),
    mutant(
        "explain-past-a-pause",
        "orchestrator/schema/functions/explain_ready.sql",
        "IF queue.state = 'paused' THEN",
        "IF false THEN",
        why="Somebody starts workers for a queue that somebody else has paused.",
        suites=("operate/test_explain.py",),
    ),
    mutant(
        "doctor-blind-to-what-was-prepared",
        "orchestrator/operate/doctor/horizon.sql",
        "WHERE p.database = current_database()",
        "WHERE false",
        why="A forgotten prepared transaction holds the horizon for weeks, and all is well, it is said.",
        suites=("operate/test_doctor.py",),
    ),
    mutant(
        "doctor-that-takes-one-session-for-two",
        "orchestrator/operate/doctor/notifications.py",
        'ringer.execute(RING, {"word": word})',
        'listener.execute(RING, {"word": word})',
        why="A session hears itself through a pooler, where no worker hears anybody.",
        suites=("operate/test_doctor.py",),
    ),
)
