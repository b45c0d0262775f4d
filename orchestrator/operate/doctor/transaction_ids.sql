-- Out: one row: how many transactions ago the oldest row of this database may have been frozen; what freezes
-- rows.
SELECT age(d.datfrozenxid), 'VACUUM (FREEZE);' FROM pg_database AS d WHERE d.datname = current_database()
