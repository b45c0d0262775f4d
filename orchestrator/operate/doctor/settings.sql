-- Settings of the server as they are for sessions of this role in this database, whatever this one has set for itself. In:
-- names. Out: name; value; value that PostgreSQL comes with; the statement that gives it back to this role.
SELECT s.name, s.reset_val, s.boot_val, format('ALTER ROLE %%I SET %%I = %%L;', current_user, s.name, s.boot_val) AS cure
FROM pg_settings AS s WHERE s.name = ANY (%(names)s::text[])
