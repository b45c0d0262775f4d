-- The indexes that are missing or not valid. Out: name; whether it exists; the statement that repairs it. The list is
-- that of the migrations. The primary keys of the day leaves are found through their tables instead.
WITH expected (name, made_by) AS (
    VALUES
        ('tasks_live_pkey', 'ALTER TABLE orchestrator.tasks_live ADD CONSTRAINT tasks_live_pkey PRIMARY KEY (id);'),
        ('tasks_live_claim_idx', 'CREATE INDEX CONCURRENTLY tasks_live_claim_idx ON orchestrator.tasks_live (queue, position, id) WHERE status = ''pending'' AND lane IS NULL;'),
        ('tasks_live_due_idx', 'CREATE INDEX CONCURRENTLY tasks_live_due_idx ON orchestrator.tasks_live (run_at) WHERE status = ''scheduled'';'),
        ('tasks_live_worker_idx', 'CREATE INDEX CONCURRENTLY tasks_live_worker_idx ON orchestrator.tasks_live (worker_id) WHERE worker_id IS NOT NULL;'),
        ('tasks_dead_pkey', 'ALTER TABLE orchestrator.tasks_dead ADD CONSTRAINT tasks_dead_pkey PRIMARY KEY (id);'),
        ('tasks_dead_finished_idx', 'CREATE INDEX CONCURRENTLY tasks_dead_finished_idx ON orchestrator.tasks_dead (finished_at);'),
        ('tasks_dead_queue_idx', 'CREATE INDEX CONCURRENTLY tasks_dead_queue_idx ON orchestrator.tasks_dead (queue, finished_at);'),
        ('workers_pkey', 'ALTER TABLE orchestrator.workers ADD CONSTRAINT workers_pkey PRIMARY KEY (id);'),
        ('workers_live_idx', 'CREATE INDEX CONCURRENTLY workers_live_idx ON orchestrator.workers (id) WHERE state IN (''running'', ''draining'');'),
        ('workers_one_leader_idx', 'CREATE UNIQUE INDEX CONCURRENTLY workers_one_leader_idx ON orchestrator.workers (is_leader) WHERE is_leader;'),
        ('attempts_pkey', 'ALTER TABLE orchestrator.attempts ADD CONSTRAINT attempts_pkey PRIMARY KEY (id);'),
        ('attempts_task_idx', 'CREATE UNIQUE INDEX CONCURRENTLY attempts_task_idx ON orchestrator.attempts (task_id, lease);'),
        ('attempts_queue_idx', 'CREATE INDEX CONCURRENTLY attempts_queue_idx ON orchestrator.attempts (queue, finished_at);'),
        ('idempotency_keys_pkey', 'ALTER TABLE orchestrator.idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (type, key);'),
        ('idempotency_keys_expires_idx', 'CREATE INDEX CONCURRENTLY idempotency_keys_expires_idx ON orchestrator.idempotency_keys (expires_at);'),
        ('audit_pkey', 'ALTER TABLE orchestrator.audit ADD CONSTRAINT audit_pkey PRIMARY KEY (id);'),
        ('audit_task_idx', 'CREATE INDEX CONCURRENTLY audit_task_idx ON orchestrator.audit (task_id);'),
        ('audit_at_idx', 'CREATE INDEX CONCURRENTLY audit_at_idx ON orchestrator.audit (at);'),
        ('gate_changes_gate_idx', 'CREATE INDEX CONCURRENTLY gate_changes_gate_idx ON orchestrator.gate_changes (gate);'),
        ('queues_pkey', 'ALTER TABLE orchestrator.queues ADD CONSTRAINT queues_pkey PRIMARY KEY (name);'),
        ('types_pkey', 'ALTER TABLE orchestrator.types ADD CONSTRAINT types_pkey PRIMARY KEY (name);'),
        ('statistics_pkey', 'ALTER TABLE orchestrator.statistics ADD CONSTRAINT statistics_pkey PRIMARY KEY (minute, queue, type);'),
        ('statistics_by_hour_pkey', 'ALTER TABLE orchestrator.statistics_by_hour ADD CONSTRAINT statistics_by_hour_pkey PRIMARY KEY (hour, queue, type);'),
        ('samples_pkey', 'ALTER TABLE orchestrator.samples ADD CONSTRAINT samples_pkey PRIMARY KEY (queue);'),
        ('settings_pkey', 'ALTER TABLE orchestrator.settings ADD CONSTRAINT settings_pkey PRIMARY KEY (only_row);')
    UNION ALL
    SELECT l.leaf || '_pkey', format('ALTER TABLE orchestrator.%%I ADD CONSTRAINT %%I PRIMARY KEY (id);', l.leaf, l.leaf || '_pkey')
    FROM orchestrator.day_leaves AS l
),
here AS (
    SELECT c.relname AS name, i.indisvalid AND i.indisready AS is_valid
    FROM pg_class AS c
    JOIN pg_index AS i ON i.indexrelid = c.oid
    WHERE c.relnamespace = to_regnamespace('orchestrator')
)
SELECT
    e.name, h.name IS NOT NULL AS is_there,
    CASE WHEN h.name IS NULL THEN e.made_by ELSE format('REINDEX INDEX CONCURRENTLY orchestrator.%%I;', e.name) END AS cure
FROM expected AS e
LEFT JOIN here AS h ON h.name = e.name
WHERE h.is_valid IS NOT TRUE
