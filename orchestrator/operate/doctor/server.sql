-- name: settings
-- The server's settings for sessions of this role in this database, without what this session has set itself. In:
-- names.
-- Out: name; value; PostgreSQL's default; the statement that resets it for this role.
SELECT s.name, s.reset_val, s.boot_val, format('ALTER ROLE %%I SET %%I = %%L;', current_user, s.name, s.boot_val) AS cure
FROM pg_settings AS s WHERE s.name = ANY (%(names)s::text[])

-- name: recovery
-- Out: one row: whether this server is a standby.
SELECT pg_is_in_recovery()

-- name: transaction_ids
-- Out: one row: the age in transactions of the oldest row that may be unfrozen in this database; the statement that
-- freezes rows.
SELECT age(d.datfrozenxid), 'VACUUM (FREEZE);' FROM pg_database AS d WHERE d.datname = current_database()
