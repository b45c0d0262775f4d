"""Every crash point: each message of a task's life, and of an enqueue, is a moment at which something may end.

    python -m tests.crashpoints            every message, four faults each
    test_crash_points.py                   a seeded choice, as part of `make test`; a larger one in the long tier

    tap.py       the door that reads the protocol, counts its messages, and strikes at one of them
    processes.py      workers and producers, each a process
    tasks.py      the application whose tasks live, and the direct line on which its handlers say that they began
    worker_runs.py     a worker's life: hired, one task, told to stop; struck at a point, and what others then make of
    it producer_runs.py    a producer's: one enqueue, struck at a point, and what it was told
    database.py    the database of a lane: what is written down beside the product, to be judged afterwards
    verdict.py   what must hold when everything is over
    sweep.py     the points of all lives, and lanes that run through them side by side

A point is a connection's purpose and the number of a message on it, counted apart while the worker lives and when it
was told to stop, so that it is the same moment in the next run, however the connections interleave.
"""
