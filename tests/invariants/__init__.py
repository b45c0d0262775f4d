"""The invariants: what must always hold. They are stated once, and all tests that cause faults check the same ones.

    I1   durable               each acknowledged enqueue exists, or a manual change or retention has deleted it
    I2   no phantom            a rolled-back task does not exist, and never runs
    I3   one lease             a task has at most one live lease; an ended lease never comes back
    I4   fenced                a write under a superseded lease changes nothing, and its worker learns of it
    I5   final                 a lease ends once; only a manual change leads back from an end
    I6   no rerun without cause  each run but the last has a cause on record
    I7   live                  a task that can run starts in the stated time; no dead worker holds a task
    I8   term                  terms strictly rise, one leader at a time, no duty in a term that is over
    I9   twice is once         a duty that two leaders do has the effect of one
    I10  fair count            attempts stay within their number; only a task that had begun is charged for a loss
    I11  one per key           any number of callers with one key get one task
    I12  honest doubt          no caller learns "not enqueued" when the task may be there
    I13  bounded               memory, threads, connections and log lines of a process
    I14  isolated              a task that kills processes costs other tasks nothing
    I15  truthful              tables, counts and metrics agree; each failure and each loss is on record once
    I16  edges                 each step is allowed for what makes it
    I17  followed              each end of a lease gives back what it held, once

| tests                | what they check                                        | which                            |
| -------------------- | ------------------------------------------------------ | -------------------------------- |
| tests/races          | every order of two or three sessions' statements       | I1-I8, I10, I11, I15, I16        |
| tests/stateful       | generated histories, compared with a reference         | I1, I3, I5, I8, I10, I11, I16    |
| tests/crashpoints    | one task's execution, with a fault at each message     | I1, I3-I7, I10, I16              |
| tests/chaos          | minutes of faults on real processes, by their records  | all                              |
| tests/model          | every state of a model of leases and terms             | I3-I5, I7, I8, I10               |

`moves.py` checks a task's row, and each of its moves from one status to another, for the first three of these.
`watch.sql` is the trigger that records the moves.
"""
