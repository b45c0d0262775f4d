"""The invariants: what must hold whatever happens, stated once and judged alike in all tests that look for faults.

| tests                | what it looks at                                       | which                            |
| -------------------- | ------------------------------------------------------ | -------------------------------- |
| tests/races          | every order of two or three sessions' statements       | I1-I8, I10, I11, I15, I16        |
| tests/stateful       | random histories, beside a reference                   | I1, I3, I5, I8, I10, I11, I16    |
| tests/crashpoints    | one task's execution, with a fault at each message     | I1, I3-I7, I10, I16              |
| tests/chaos          | minutes of faults on real processes                    | all                              |
| tests/model          | every state of a model of leases and terms             | I3-I5, I7, I8, I10               |

- `moves.py` judges a task's row and its moves from one status to another. `watch.sql` is the trigger that records them.
- `terms.py` judges the order of the terms.

Races, stateful, crash points and chaos call both. Chaos also compares its records of the processes in SQL
(`chaos/checks`). The model has no rows: each of its rules names the invariant that it belongs to.
"""

from collections.abc import Mapping

STATED: Mapping[str, str] = {
    "I1": "durable: each acknowledged task is there, or was deleted manually or by retention",
    "I2": "no phantom: what was rolled back is not there, and never runs",
    "I3": "one lease: a task has at most one live lease; no lease comes back once it has ended",
    "I4": "fenced: a write under a superseded lease changes nothing, and its worker learns it",
    "I5": "final: a lease ends once; only a manual change leads back from an end",
    "I6": "no rerun without a cause: each run but the last has a cause on record",
    "I7": "live: a task that can run starts in the stated time; no worker that is gone holds anything",
    "I8": "one term: terms strictly rise, one leader at a time, no duty in a term that is over",
    "I9": "twice is once: a duty that two leaders do has the effect of one",
    "I10": "fair count: attempts stay within their number; only a started task is charged for a loss",
    "I11": "one per key: any number of callers with one key get one task",
    "I12": "honest doubt: no caller learns 'not enqueued' when the task may be there",
    "I13": "bounded: memory, threads, connections and log lines of a process",
    "I14": "isolated: a task that kills processes costs its neighbours nothing",
    "I15": "truthful: tables, counts and metrics agree; each failure and each loss is on record once",
    "I16": "edges: a task begins as pending or scheduled, and each step is one that its maker may take",
    "I17": "followed: each end of a lease gives back what it held, once; no limit loses a permit",
    "I18": "in order: the place of a task follows from its time, its priority and its queue's aging",
}
