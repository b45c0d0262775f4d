-- Hold the beacon of a worker for as long as this session lasts. The key: its id, and a random number that its row tells
-- to those who may read it; any login may take an advisory lock, but not guess this one.
-- One at a time: an older one of this session, under another number, is put out first.
SELECT pg_advisory_unlock_all(), pg_advisory_lock(hashtextextended(%(worker_id)s::uuid::text, %(beacon)s))
