-- Make a copy of a database. In: the name of the copy; the name of the original.
-- STRATEGY file_copy: 6.7 ms in memory, and 8.7 ms with wal_log; on a disk 226 and 316.
CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy
