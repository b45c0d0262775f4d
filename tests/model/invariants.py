"""The rules of the model, each with the number of its invariant in tests/invariants.

A state of the model has no rows and no history, so each rule is a condition on one step.
"""

ONE_LEASE = "I4: an outcome is accepted only from the execution that holds the lease"
ONE_OUTCOME = "I5: at most one outcome is accepted for a lease"
KEPT = "I3: a lease is given back only by a worker that does not hold it"
PATIENCE = "I4: only a worker that has missed its time, by the server's clock, loses its leases or its term"
ORPHANS = "I4: recovery takes back only what a dead worker still holds"
FAIR = "I10: only a started task is charged for the loss of its worker"
LATEST = "I8: a duty commits only under the latest term, and that is its own"
RISING = "I8: terms strictly rise"
OWN_TERM = "I8: a worker that resigns ends its own term and no other"
COUNTED = "I10: attempts and losses stay within their bounds"
LIVE = "I7: when faults stop, every task can still reach its end"
