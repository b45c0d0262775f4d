-- Whether a worker may stop its other tasks for the suspect that it holds. It may if, among workers whose suspects have
-- not started, it has held its suspect for longest. So only one worker at a time does. In: id, lease of the suspect;
-- worker_id. Out: one row if so. A suspect whose worker is gone counts until it is taken back, seconds later.
-- Locks: none. Paths: tasks_live_pkey; tasks_live_worker_idx, which holds leased rows only.
SELECT mine.id
FROM orchestrator.tasks_live AS mine
WHERE mine.id = %(id)s AND mine.lease = %(lease)s
    AND NOT EXISTS (
        SELECT
        FROM orchestrator.tasks_live AS t
        WHERE t.worker_id >= '00000000-0000-0000-0000-000000000000' AND t.worker_id <> %(worker_id)s::uuid
            AND t.status = 'claimed' AND t.losses >= 2
            AND (t.claimed_at, t.id + 0) < (mine.claimed_at, mine.id + 0)
    )
