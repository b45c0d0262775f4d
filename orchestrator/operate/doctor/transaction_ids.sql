-- Out: one row: the age in transactions of the oldest row that may be unfrozen in this database; the statement that
-- freezes rows.
SELECT age(d.datfrozenxid), 'VACUUM (FREEZE);' FROM pg_database AS d WHERE d.datname = current_database()
