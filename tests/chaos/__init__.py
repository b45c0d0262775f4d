"""Many faults on real processes. All parts keep records, and a checker compares the records afterwards.

    producers ──► journal (a file each, fsynced before and after each commit)       what was promised
    database  ──► trail, lives (triggers, in the same transaction as the change)    what was written, by which session
    handlers  ──► ledger (another connection), effects (the task's transaction)     what was executed
    supervisor ─► faults, samples, ends of processes                                which faults occurred

python -m tests.chaos, `make chaos`
                       some minutes, from a seed; the run prints the seed, and the same seed gives the same faults
test_chaos.py          some seconds, longer on a slow machine, as part of `make test`; more in the long tier
test_checker.py        the checker must find each fault in manipulated records

The records are in a schema of their own, in the database of the run only.
"""
