"""Faults planted in our own SQL and Python, each of which the tests must find.

A passing test proves little unless it fails when its subject is broken. So each promise is broken on purpose, one at a
time, in a copy of the tree: a write without its fence, a lease that can occur twice, a claim that waits, a recovery
that does not look again. `python -m tests.mutants` (`make mutants`) runs for each fault the tests that should notice
it, the cheapest first, and prints which one did. A fault that no test notices is a missing test.

    mutant.py            a planted fault, and how it is written into a tree
    faults/              the list, by the part that is broken
    trial.py             one fault on trial: caught, or not, or no fault at all
    failure_plugin.py    what pytest reports to the trial
    __main__.py          all of them, and the table

An edit names the text that it replaces. If that text is missing, or occurs twice, it is an error, here and in
test_mutants.py; so the list stays current. The definitions in schema/ are frozen in a revision too, and the fault goes
into both.
"""
