"""Faults without end on real processes, and books kept by everybody, which a checker then holds side by side.

    producers ──► journal (a file each, fsynced before and after each commit)       what was promised
    database  ──► trail, lives (triggers, in the same transaction as the change)    what was written, and by whom
    handlers  ──► ledger (another connection), effects (the task's transaction)     what was done
    supervisor ─► faults, samples, ends of processes                                what was done to them

python -m tests.chaos, `make chaos`
                       minutes of it, from a seed, which is printed and brings the same faults again
test_chaos.py          some seconds of it, longer on a slow machine, as part of `make test`; more in the long tier
test_checker.py        books with a fault in them, which the checker must find

The books are a schema of their own in the database of the run, and in no other.
"""
