-- Undo what the last user of a connection has set for its session: settings, a role, advisory locks, temporary tables,
-- LISTEN. A tenant that was set for one task must not hold for the next. Out: nothing. Locks: none.
DISCARD ALL
