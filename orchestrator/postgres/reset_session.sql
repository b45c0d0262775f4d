-- Undo what the last user of a connection has set in its session: settings, a role, advisory locks, temporary tables,
-- LISTEN. A tenant that one task has set must not apply to the next task. Out: nothing. Locks: none.
DISCARD ALL
