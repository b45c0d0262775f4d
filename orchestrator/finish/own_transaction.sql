-- Prepare to complete a task inside its handler's own transaction, just before complete.sql. It takes one round trip,
-- and every setting ends with the transaction.
-- RESET ROLE: a role that the handler has set (a tenant's, for instance) may not write tasks. lock_timeout: the
-- handler's transaction holds locks of its own, so it waits 5 s at most for a lock on the task's row. The leaf for
-- today is made here if it is missing: an INSERT that finds none would void everything that the handler has written.
-- After this only a COMMIT follows, and the row stays locked until it comes: the server ends a session whose client is
-- cut off now.
-- Locks: none; tasks_done, SHARE UPDATE EXCLUSIVE, when the leaf is made.
RESET ROLE;
SET LOCAL lock_timeout = '5s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
SELECT orchestrator.ensure_partition()
