-- Make ready to complete a task inside its handler's own transaction, just before complete.sql; in one round trip, and
-- all of it ends with the transaction.
-- A role that the handler has put on (a tenant's, say) may not write tasks. Behind somebody's lock on the task's row the
-- handler's transaction, which holds locks of its own, waits 5 s at most. A leaf that is missing for today is made
-- before: an INSERT that finds none would void all that the handler has written. From here on only a COMMIT is to come,
-- and the row is locked for as long as it does not: a client that is cut off now is not waited for.
-- Locks: none; tasks_done, SHARE UPDATE EXCLUSIVE, when the leaf is made.
RESET ROLE;
SET LOCAL lock_timeout = '5s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
SELECT orchestrator.ensure_partition()
