"""Tasks that are enqueued twice, not at all, at the wrong time, or that no worker can read."""

from tests.mutants.mutant import mutant

KEYS = "orchestrator/schema/functions/take_key.sql"
CHECK = "orchestrator/schema/functions/check_payload.sql"
FILL = "orchestrator/schema/functions/fill_new_task.sql"
REQUEST = "orchestrator/enqueue/request.py"
GATHER = "orchestrator/app/gather.py"

MUTANTS = (
    mutant(
        "one-refusal-for-all-that-went-together",
        GATHER,
        "            if len(some) == 1:\n                give_up(some, error)\n",
        "            raise\n            if len(some) == 1:\n                give_up(some, error)\n",
        why="A coroutine whose task is right gets the error of another one's.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "what-is-in-doubt-is-sent-again",
        GATHER,
        "        except Exception as error:\n            give_up(sending.asked, error)\n        finally:\n"
        "            # The send was cancelled. Those that have no answer yet may be enqueued.\n"
        "            give_up(sending.asked, EnqueueInDoubt())\n",
        "        except EnqueueInDoubt:\n"
        "            self._waiting.update((answer, (0, request)) for request, answer in sending.asked)\n",
        why="Tasks whose COMMIT succeeded are enqueued twice.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "a-key-goes-with-the-others",
        GATHER,
        "        if request[0].key:\n",
        "        if False:\n",
        why="All coroutines wait for a transaction that holds the key of one.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "each-of-a-refused-set-is-sent-alone",
        GATHER,
        "elif (n := error.item) is not None and n < len(some):",
        "elif (n := None) is not None:",
        why="One coroutine with a wrong task slows all others down to a commit for each task.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "what-is-behind-a-refused-one-goes-whole",
        GATHER,
        "half = (n + 1 + len(some)) // 2",
        "half = n + 1",
        why="While a queue drains, each of a thousand wrong tasks is sent hundreds of times.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "doubt-for-what-was-not-sent",
        GATHER,
        "            give_up(some, error)\n            # For the rest of a refused set.\n",
        "            give_up(asked, error)\n            # For the rest of a refused set.\n",
        why="Callers without a key cannot try again, although nothing of theirs is there.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "hanging-send-is-not-cancelled",
        GATHER,
        "            sending.task.cancel()\n",
        "            pass\n",
        why="Sends that hang hold the pool's connections when all callers have long given up.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "nobody-sends-what-has-come-meanwhile",
        GATHER,
        "        self._senders.discard(sender)\n        self._end(sending)\n",
        "        self._senders.discard(sender)\n",
        why="Coroutines that enqueue at the same time wait for ever.",
        suites=("producers/test_gather.py",),
    ),
    mutant(
        "key-given-out-by-what-was-seen-before",
        KEYS,
        "            WHERE k.expires_at <= orchestrator.clock();\n        IF FOUND",
        "            WHERE k.expires_at <= orchestrator.clock()\n"
        "                OR NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = k.task_id);\n        IF FOUND",
        why="Two producers with one key make two tasks.",
        suites=("schema/test_idempotency.py", "races/test_keys.py"),
    ),
    mutant(
        "key-for-ever",
        KEYS,
        "WHERE k.type = task_type AND k.key = task_key AND k.expires_at > orchestrator.clock();",
        "WHERE k.type = task_type AND k.key = task_key;",
        why="A key whose window is over enqueues nothing any more.",
        suites=("schema/test_idempotency.py",),
    ),
    mutant(
        "keys-in-any-order",
        "orchestrator/schema/functions/enqueue_many.sql",
        "            ORDER BY a.value ->> 'type' COLLATE \"C\", a.value ->> 'key' COLLATE \"C\", a.n\n",
        "            ORDER BY a.n\n",
        why="Two sets with the same keys deadlock, in the transactions of those who enqueue them.",
        suites=("schema/test_idempotency.py", "races/test_keys.py"),
    ),
    mutant(
        "keys-freed-in-any-order",
        "orchestrator/schema/functions/record_manual_delete.sql",
        '    ORDER BY k.type COLLATE "C", k.key COLLATE "C"\n    FOR UPDATE OF k;',
        '    ORDER BY k.key COLLATE "C" DESC\n    FOR UPDATE OF k;',
        why="A DELETE of tasks and a set that takes their keys deadlock.",
        suites=("races/test_keys.py",),
    ),
    mutant(
        "key-kept-by-a-cancelled-task",
        KEYS,
        "SELECT FROM orchestrator.tasks AS t WHERE t.id = holder AND t.status <> 'cancelled') THEN\n        RETURN",
        "SELECT FROM orchestrator.tasks AS t WHERE t.id = holder) THEN\n        RETURN",
        why="What was cancelled by mistake cannot be enqueued again for a day.",
        suites=("schema/test_idempotency.py",),
    ),
    mutant(
        "key-returned-without-a-lock",
        "orchestrator/schema/functions/return_key.sql",
        "    FOR UPDATE;\n",
        "    ;\n",
        why="A requeue and a taker at the same moment make two tasks of one key.",
        suites=("races/test_keys.py",),
    ),
    mutant(
        "keys-returned-in-any-order",
        "orchestrator/schema/functions/record_manual_update.sql",
        '        ORDER BY b.type COLLATE "C", b.idempotency_key COLLATE "C", b.id\n',
        "        ORDER BY b.id\n",
        why="A requeue of cancelled tasks and a set that takes their keys deadlock.",
        suites=("races/test_keys.py",),
    ),
    mutant(
        "size-as-it-is-stored",
        CHECK,
        "body_bytes := octet_length(body);",
        "body_bytes := pg_column_size(payload);",
        why="A body of 900 bytes that prints as 13 MB gets in, and every claim of it costs as much.",
        suites=("schema/test_plain_sql_enqueue.py",),
    ),
    mutant(
        "any-depth",
        CHECK,
        "'strict $.**{64}.type() ?",
        "'strict $.**{6400}.type() ?",
        why="A worker cannot decode what SQL nests a thousand deep.",
        suites=("schema/test_plain_sql_enqueue.py",),
    ),
    mutant(
        "any-number",
        CHECK,
        "octet_length(n.value::text) > 4300",
        "octet_length(n.value::text) > 430000",
        why="A worker cannot decode an integer of 5,000 digits.",
        suites=("schema/test_plain_sql_enqueue.py",),
    ),
    mutant(
        "marks-of-an-attempt-in-an-insert",
        FILL,
        "        OR NEW.attempt IS DISTINCT FROM 0 OR NEW.losses IS DISTINCT FROM 0\n",
        "",
        why="A producer enqueues what counts as tried, and it becomes a dead letter at its first failure.",
        suites=("schema/test_plain_sql_enqueue.py",),
    ),
    mutant(
        "draining-queue-takes-more",
        FILL,
        "    IF draining THEN",
        "    IF draining AND NEW.priority > 100 THEN",
        why="A queue that drains is never empty.",
        suites=("schema/test_plain_sql_enqueue.py",),
    ),
    mutant(
        "delay-by-the-clients-clock",
        REQUEST,
        "        if value is not None:\n            into = key",
        '        if option.name == "delay" and value is not None:\n'
        "            due = time.time() + seconds(option.name, value)\n"
        '            members["run_at"] = datetime.fromtimestamp(due, UTC).isoformat()\n'
        "        elif value is not None:\n            into = key",
        why="A client whose clock is an hour slow delays nothing by half an hour.",
        suites=("app/test_options.py::test_a_delay_counts_from_the_databases_clock",),
        also=(
            ("from datetime import datetime\n", "from datetime import UTC, datetime\n"),
            ("import json\nimport re\n", "import json\nimport re\nimport time\n"),
        ),
    ),
    mutant(
        "doubt-told-as-failure",
        "orchestrator/enqueue/translate_error.py",
        "            return EnqueueInDoubt()",
        '            return DatabaseUnavailable("nothing was enqueued")',
        why="Who is told that nothing was enqueued tries again, and the task is there twice.",
        suites=("producers/test_in_doubt.py",),
    ),
    mutant(
        "floats-in-exponents",
        "orchestrator/task/payload.py",
        '        if "e" in text:',
        '        if "e" in text and number == 0:',
        why="1e23 is enqueued, and the handler gets an integer that is not equal to it.",
        suites=("task/test_payload.py",),
    ),
    mutant(
        "nul-in-a-payload",
        "orchestrator/task/payload.py",
        '        if "\\x00" in text:',
        '        if "\\x00" == text[:0]:',
        why="PostgreSQL refuses in its own words, in the middle of the caller's transaction.",
        suites=("task/test_payload.py",),
    ),
)
