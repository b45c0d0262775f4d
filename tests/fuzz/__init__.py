"""Calls with any content. Each value comes back equal, or it is refused by name.

Payloads, options, names, tags and keys of any kind are enqueued in every way (Python, plain SQL, the functions for
sets). The product's own code claims, decodes and runs the accepted tasks, and ends them with any result or error. Then
the test reads them back and compares. There must be no internal error of the server, no constraint without a message,
and no row that a worker cannot claim, read or end.

    values.py        the values in a call
    enqueue_ways.py  the ways to enqueue, and to call each function
    refusals.py      the refusals that count as refusals by name
    task_run.py      one call, and the life of its tasks
    functions.py     calls of every function in the catalog, with any arguments
    edges.py         calls of every function, with each argument at each edge of its type
    test_*.py        a few hundred calls, the same in each run, as part of `make test`
    __main__.py      100,000 calls with any seed (`make fuzz`), and their counts
"""
