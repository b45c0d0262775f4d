"""Calls with anything in them, and what must come of each: it comes back equal, or it is refused by name.

Payloads, options, names, tags and keys of any kind go in by every way there is (Python, plain SQL, the functions for
sets); what gets in is claimed, decoded, run and ended with any result or error, by the stations themselves; and what is
read back is what was meant. Never an internal error of the server, a constraint that somebody forgot to say in words,
or a row that a worker cannot claim, read or end.

    values.py    what may be in a call
    enqueue_ways.py        the ways to enqueue, and to call each function
    refusals.py       which refusals are refusals by name
    task_run.py        one call, and the life of the tasks that came of it
    test_fuzz.py   a few hundred calls, the same each time, as part of `make test`
    __main__.py    100,000 of them, of any seed (`make fuzz`), with the counts
"""
