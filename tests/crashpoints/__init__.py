"""Every crash point: a fault at each message of a task's execution and of an enqueue.

    python -m tests.crashpoints            every message, four faults each
    test_crash_points.py                   a seeded choice, as part of `make test`; a larger one in the long tier

    fault_proxy.py    the proxy that reads the protocol, counts its messages, and causes a fault at one of them
    processes.py      workers and producers, each a process
    tasks.py          the application, and the direct connection on which its handlers report that they began
    worker_runs.py    the run of a worker: start, one task, stop; a fault at one point, and the reaction of others
    producer_runs.py  the run of a producer: one enqueue, a fault at one point, and the answer
    database.py       the database of a lane, with records beside the product's tables for the verdict
    verdict.py        what must hold at the end
    all_points.py       the points of all runs, and lanes that try them side by side

A point is the purpose of a connection and the number of a message on it. Messages before and after the request to stop
are counted separately. So a point is the same moment in the next run, even if the connections interleave differently.
"""
