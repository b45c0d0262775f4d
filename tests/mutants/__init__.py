"""Faults planted in our own SQL and Python, each of which the tests must find.

A test that passes proves little unless it is known to fail when what it is there for is broken. So each promise is
broken on purpose, one at a time, in a copy of the tree: a fence dropped from a write, a lease that can come twice, a
claim that waits, a recovery that does not look again. `python -m tests.mutants` (`make mutants`) runs for each the
tests that should notice, the cheapest first, and says which one did. One that nobody notices is a missing test.

    mutant.py     what a planted fault is, and how it is written into a tree
    faults/       the list, by what is broken
    trial.py      one fault on trial: caught, or not, or no fault at all
    failure_plugin.py    what pytest says to the trial
    __main__.py   all of them, and the table

An edit names the text that it replaces; where that no longer stands, or stands twice, it is an error, here and in
test_mutants.py: so the list cannot rot. What schema/ defines is frozen in a revision too; the fault goes into both.
"""
