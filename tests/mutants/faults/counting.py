"""Statistics that count twice, lose counts, wait for each other, or have a wrong meaning."""

from tests.mutants.mutant import mutant

STATISTICS = "orchestrator/observe/statistics.py"
COUNTED = ("observe/test_statistics.py",)

MUTANTS = (
    mutant(
        "count-what-may-have-been-written",
        STATISTICS,
        "            if connection.closed:\n                raise\n",
        "",
        why="The answer is lost after the commit, and everything in it is counted again.",
        suites=COUNTED,
    ),
    mutant(
        "count-for-another-worker",
        STATISTICS,
        " and event.worker_id in self._ids:",
        ":",
        why="Two workers of one process each count what both have done, in databases where one has not been.",
        suites=COUNTED,
    ),
    mutant(
        "count-and-forget-what-is-refused",
        STATISTICS,
        "                    sum_of(self._waiting, key).add(known)\n",
        "                    pass\n",
        why="A report locks the table for a moment, and an interval of every worker is gone.",
        suites=COUNTED,
    ),
    mutant(
        "count-any-number-of-names",
        STATISTICS,
        "len(sums) >= KEYS_MAX:",
        "False:",
        why="Somebody enqueues a million types, and the memory of a worker and the table grow with them.",
        suites=COUNTED,
    ),
    mutant(
        "count-in-any-order",
        "orchestrator/schema/functions/record_statistics.sql",
        "    ORDER BY r.queue, r.type\n    ON CONFLICT (minute,",
        "    ON CONFLICT (minute,",
        why="Two workers write the same types in another order, and one of them is a deadlock's victim.",
        suites=COUNTED,
    ),
    mutant(
        "count-a-handlers-own-commit-for-nothing",
        "orchestrator/worker/slots.py",
        "        announce([attempt], worker_id=attempt.worker_id)\n",
        "",
        why="What a handler completes in its own transaction is in the tables, and in no count.",
        suites=("worker/test_statistics.py",),
    ),
)
