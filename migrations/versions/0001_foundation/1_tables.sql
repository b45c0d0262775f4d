-- The tables, sequences and indexes of the first revision. migrations/env.py makes the schema and the version
-- table, and takes the advisory lock. Functions come in 2_functions.sql; only clock() is here, because a column
-- default needs it.

-- All SQL reads the database's time through this one function, so that a test can replace it in its own database.
-- STABLE: a VOLATILE clock turns the claim's index scan into a sequential one. statement_timestamp(): PostgreSQL
-- inlines a body of the same volatility. It returns the time when the client's statement arrived.
CREATE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.statement_timestamp() $$;

CREATE SEQUENCE orchestrator.tasks_id_seq AS bigint;

-- Numbers the leaders' terms. Each election draws one.
CREATE SEQUENCE orchestrator.term_seq AS bigint;

-- The settings of the whole installation, in one row.
CREATE TABLE orchestrator.settings (
    only_row boolean PRIMARY KEY DEFAULT true CONSTRAINT settings_only_row_check CHECK (only_row),
    -- A worker runs on this schema only if it was built for this schema revision or a newer one.
    oldest_code integer NOT NULL,
    payload_bytes_max integer NOT NULL DEFAULT 262144
        CONSTRAINT settings_payload_bytes_max_check CHECK (payload_bytes_max > 0),
    keep_audit interval NOT NULL DEFAULT interval '90 days'
        CONSTRAINT settings_keep_audit_check CHECK (keep_audit BETWEEN interval '0' AND interval '1000 years'),
    -- For the rows of workers that stopped or died.
    keep_workers interval NOT NULL DEFAULT interval '1 day'
        CONSTRAINT settings_keep_workers_check CHECK (keep_workers BETWEEN interval '0' AND interval '1000 years'),
    -- For the statistics by the hour. The statistics by the minute are kept for two days at most.
    keep_statistics interval NOT NULL DEFAULT interval '14 days'
        CONSTRAINT settings_keep_statistics_check CHECK (keep_statistics BETWEEN interval '0' AND interval '1000 years')
);
INSERT INTO orchestrator.settings (oldest_code) VALUES (1);

-- Where these tables are at home: one row, written by set_home(). `place` holds the transaction that wrote the row, and
-- the oids of the database, this table, tasks_live and workers (docs/decisions/0007-a-restored-copy-runs-nothing.md).
-- A copied row never matches its new place, so it is not at home there. The table has no key: with one, a restore into
-- tables that already have a row would fail at the key and stay unnoticed; without one, the restore adds a second row.
-- Nothing but set_home() may write this table, and nothing may rewrite it.
CREATE TABLE orchestrator.home (
    place oid[] NOT NULL,
    database text NOT NULL DEFAULT current_database(),
    since timestamptz NOT NULL DEFAULT orchestrator.clock()
);
ALTER TABLE orchestrator.home REPLICA IDENTITY FULL;

-- Some statements compute with all rows at once; these bounds keep their results within what a timestamp holds. A
-- trigger checks the same bounds first and raises a readable message (guard_queue, guard_type).
CREATE TABLE orchestrator.queues (
    name text PRIMARY KEY
        CONSTRAINT queues_name_check CHECK (char_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    state text NOT NULL DEFAULT 'active'
        CONSTRAINT queues_state_check CHECK (state IN ('active', 'paused', 'draining')),
    state_since timestamptz NOT NULL DEFAULT orchestrator.clock()
        CONSTRAINT queues_state_since_check CHECK (state_since BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'),
    state_by text,
    state_reason text,
    priority smallint CONSTRAINT queues_priority_check CHECK (priority BETWEEN 0 AND 100),
    max_attempts smallint CONSTRAINT queues_max_attempts_check CHECK (max_attempts >= 1),
    timeout interval CONSTRAINT queues_timeout_check CHECK (timeout BETWEEN interval '0' AND interval '100 years'),
    -- Each point of priority equals this much waiting time; 1000 years means strict priority.
    aging interval NOT NULL DEFAULT interval '1000 years'
        CONSTRAINT queues_aging_check CHECK (aging BETWEEN interval '0' AND interval '1000 years'),
    keep_finished interval NOT NULL DEFAULT interval '7 days'
        CONSTRAINT queues_keep_finished_check CHECK (keep_finished BETWEEN interval '0' AND interval '1000 years'),
    keep_dead interval NOT NULL DEFAULT interval '30 days'
        CONSTRAINT queues_keep_dead_check CHECK (keep_dead BETWEEN interval '0' AND interval '1000 years')
);
INSERT INTO orchestrator.queues (name) VALUES ('default');

-- The types that workers and `orchestrator migrate` have declared: the defaults of a task that SQL enqueues, and how
-- long an orphan of this type waits for its next attempt. NULL means the queue's default, or else the house's.
CREATE TABLE orchestrator.types (
    name text PRIMARY KEY
        CONSTRAINT types_name_check CHECK (char_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    queue text NOT NULL DEFAULT 'default'
        CONSTRAINT types_queue_check CHECK (char_length(queue) BETWEEN 1 AND 200 AND queue !~ '[[:cntrl:]]'),
    priority smallint CONSTRAINT types_priority_check CHECK (priority BETWEEN 0 AND 100),
    max_attempts smallint CONSTRAINT types_max_attempts_check CHECK (max_attempts >= 1),
    timeout interval CONSTRAINT types_timeout_check CHECK (timeout BETWEEN interval '0' AND interval '100 years'),
    backoff_base interval NOT NULL DEFAULT interval '1 second'
        CONSTRAINT types_backoff_base_check CHECK (backoff_base BETWEEN interval '0' AND interval '100 years'),
    -- PostgreSQL sorts NaN above every number, so a BETWEEN refuses it.
    backoff_factor double precision NOT NULL DEFAULT 2
        CONSTRAINT types_backoff_factor_check CHECK (backoff_factor BETWEEN 1 AND 1000),
    backoff_cap interval NOT NULL DEFAULT interval '300 seconds'
        CONSTRAINT types_backoff_cap_check CHECK (backoff_cap BETWEEN interval '0' AND interval '100 years'),
    backoff_jitter double precision NOT NULL DEFAULT 0.1
        CONSTRAINT types_backoff_jitter_check CHECK (backoff_jitter BETWEEN 0 AND 1),
    declared_at timestamptz NOT NULL DEFAULT orchestrator.clock()
);

CREATE TABLE orchestrator.tasks (
    -- No default: fill_new_task draws the id, and so knows a chosen id from a drawn one.
    id bigint NOT NULL,
    -- The order of execution, in microseconds. Not a timestamptz: Python cannot load the year 52026.
    -- date_part and not extract: extract computes in numeric.
    position bigint NOT NULL GENERATED ALWAYS AS (
        (date_part('epoch', run_at AT TIME ZONE 'UTC') * 1000000)::bigint + aging_us * (100 - priority)
    ) STORED,
    lease bigint,
    run_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    deadline timestamptz,
    -- Tasks of one lane wait and pass together (limits, tenant, capabilities). NULL for a plain task.
    lane bigint,
    workflow_id bigint,
    parent_id bigint,
    aging_us bigint NOT NULL,
    timeout interval NOT NULL,
    worker_id uuid,
    priority smallint NOT NULL CONSTRAINT tasks_priority_check CHECK (priority BETWEEN 0 AND 100),
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL CONSTRAINT tasks_max_attempts_check CHECK (max_attempts >= 1),
    losses smallint NOT NULL DEFAULT 0,
    -- The partition bounds allow only the known statuses. A CHECK beside them would cost each INSERT 4 µs.
    status text NOT NULL DEFAULT 'pending',
    queue text NOT NULL,
    type text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    idempotency_key text,
    result jsonb,
    error jsonb,
    progress jsonb,
    tags text[],
    metadata jsonb,
    trace_context jsonb,
    tenant text,
    limits text[],
    requires text[],
    -- The permits that the lease holds; every statement that ends a lease gives them back. NULL for a plain task and
    -- for no other: the finish knows a plain task by it. A task that feeds gates and holds nothing has an empty array.
    holds bigint[],
    -- The gates that wait for the end of this task.
    gates bigint[]
) PARTITION BY LIST (status);

-- The statements of claims and outcomes name this leaf, not the root.
CREATE TABLE orchestrator.tasks_live PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_live_pkey PRIMARY KEY (id),
    -- A task has a lease exactly while it has a worker.
    CONSTRAINT tasks_live_lease_check CHECK (
        (lease IS NOT NULL) = (status IN ('claimed', 'running')) AND (worker_id IS NOT NULL) = (lease IS NOT NULL)
    ),
    CONSTRAINT tasks_live_finished_check CHECK (finished_at IS NULL)
) FOR VALUES IN ('scheduled', 'blocked', 'pending', 'claimed', 'running')
WITH (
    -- Every task leaves two dead rows here, so a fixed number of dead rows must start a vacuum, not a share of the
    -- table.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1
);

-- One leaf per UTC day; ensure_partition makes it ahead of time. No DEFAULT leaf: each ATTACH would scan it under an
-- exclusive lock. A finished row keeps its lease, so that the finish recognises an outcome that was sent twice.
CREATE TABLE orchestrator.tasks_done PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_done_finished_check CHECK (finished_at IS NOT NULL)
) FOR VALUES IN ('completed', 'cancelled')
PARTITION BY RANGE (finished_at);

CREATE TABLE orchestrator.tasks_dead PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_dead_pkey PRIMARY KEY (id),
    CONSTRAINT tasks_dead_finished_check CHECK (finished_at IS NOT NULL)
) FOR VALUES IN ('dead_letter');

-- The claim's path. Tasks with a lane are not in it, so a claim never reads a task that must wait.
CREATE INDEX tasks_live_claim_idx ON orchestrator.tasks_live (queue, position, id) WHERE status = 'pending' AND lane IS NULL;
-- The sweep's path: a million future tasks cost a claim nothing.
CREATE INDEX tasks_live_due_idx ON orchestrator.tasks_live (run_at) WHERE status = 'scheduled';
-- The tasks of one worker. The predicate names worker_id alone; the finish names id and lease, so the planner can
-- never use this index for it (docs/decisions/0002-find-the-tasks-of-a-worker.md).
CREATE INDEX tasks_live_worker_idx ON orchestrator.tasks_live (worker_id) WHERE worker_id IS NOT NULL;
-- The list of dead letters, newest first.
CREATE INDEX tasks_dead_finished_idx ON orchestrator.tasks_dead (finished_at);
-- Retention. Not by finished_at alone: the rows that one queue keeps for years would come before another queue's due
-- rows.
CREATE INDEX tasks_dead_queue_idx ON orchestrator.tasks_dead (queue, finished_at);

-- A statement that ends leases gives back here the permits that they held. A statement that ends tasks counts them here
-- for the gates that they feed. It writes one row for each key. Both tables are append-only, so that no end waits for
-- another. The reader of the rows deletes them.
CREATE TABLE orchestrator.permits_returned (
    id bigint GENERATED ALWAYS AS IDENTITY,
    hold bigint NOT NULL,
    permits bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- The requeue of an ended task writes negative `ended` and `failed`. `lost`: the failed tasks whose row is gone.
CREATE TABLE orchestrator.gate_changes (
    id bigint GENERATED ALWAYS AS IDENTITY,
    gate bigint NOT NULL,
    ended bigint NOT NULL,
    failed bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX gate_changes_gate_idx ON orchestrator.gate_changes (gate);

-- One row for each process, with a new id at each start. An id is never used twice, so no worker inherits its tasks.
CREATE TABLE orchestrator.workers (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    -- The types that it has handlers for, so that explain() can report a task that no worker has a handler for. NULL:
    -- the worker did not report them. Long lists are stored out of line (TOAST), so a beat does not copy them.
    types text[],
    capacity integer NOT NULL,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT workers_state_check CHECK (state IN ('running', 'draining', 'stopped', 'dead')),
    started_at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    beat_at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    -- The worker's own setting dead_after_seconds: without a beat for so long it counts as dead.
    dead_after interval NOT NULL DEFAULT interval '30 seconds'
        CONSTRAINT workers_dead_after_check CHECK (dead_after > interval '0' AND dead_after <= interval '1000 days'),
    -- The worker sleeps in LISTEN until then. Producers ring only for sleepers; the time limit ends this for a killed
    -- worker.
    idle_until timestamptz,
    beacon bigint,
    -- Since when its event loop is blocked, by its last beat; NULL: it is not blocked.
    blocked_at timestamptz,
    is_leader boolean NOT NULL DEFAULT false,
    leader_until timestamptz,
    term bigint,
    -- The oid of the table in which the row was made, set by a trigger. A row from a dump has another table's oid, and
    -- a row made in a restored copy has 0. A worker with such a row claims nothing.
    workplace oid NOT NULL,
    -- Python reads these times; one that Python cannot load would stop every worker's beat.
    CONSTRAINT workers_times_check CHECK (
        least(started_at, beat_at, idle_until, leader_until) >= '1970-01-01 UTC'
        AND greatest(started_at, beat_at, idle_until, leader_until) <= '9000-01-01 UTC'
    ),
    CONSTRAINT workers_leader_check CHECK (NOT is_leader OR (term IS NOT NULL AND leader_until IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
-- The live workers, read by each enqueue: the rows of stopped workers must cost it nothing. beat_at is not in the
-- index, or no beat could be a HOT update.
CREATE INDEX workers_live_idx ON orchestrator.workers (id) WHERE state IN ('running', 'draining');
CREATE UNIQUE INDEX workers_one_leader_idx ON orchestrator.workers (is_leader) WHERE is_leader;

-- One row for each execution that began and left its task unfinished or a dead letter. A completed or cancelled task is
-- its own record. `lost`: the worker or the lease was gone before the execution ended. `released` and `snoozed` do not
-- count as attempts, so several rows may have the same number.
CREATE TABLE orchestrator.attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    attempt smallint NOT NULL,
    outcome text NOT NULL CONSTRAINT attempts_outcome_check
        CHECK (outcome IN ('failed', 'timeout', 'lost', 'discarded', 'released', 'snoozed')),
    queue text NOT NULL,
    type text NOT NULL,
    error jsonb,
    lease bigint,
    worker_id uuid,
    started_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT orchestrator.clock()
);
-- One row for each lease: a disconnected worker and the leader may both write it.
CREATE UNIQUE INDEX attempts_task_idx ON orchestrator.attempts (task_id, lease);
-- Retention; by queue, for the same reason as the index of tasks_dead.
CREATE INDEX attempts_queue_idx ON orchestrator.attempts (queue, finished_at);

CREATE TABLE orchestrator.idempotency_keys (
    type text NOT NULL,
    key text NOT NULL,
    task_id bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (type, key)
);
CREATE INDEX idempotency_keys_expires_idx ON orchestrator.idempotency_keys (expires_at);

-- The leader's last counts, one row for each queue: a status screen reads them where counting is expensive. Each sample
-- replaces the previous one. `took`: how long the count of all queues took.
CREATE TABLE orchestrator.samples (
    queue text PRIMARY KEY,
    pending bigint NOT NULL,
    scheduled bigint NOT NULL,
    blocked bigint NOT NULL,
    claimed bigint NOT NULL,
    running bigint NOT NULL,
    dead_letters bigint NOT NULL,
    oldest_ready_at timestamptz,
    next_due_at timestamptz,
    sampled_at timestamptz NOT NULL,
    took interval NOT NULL
) WITH (fillfactor = 50);

-- The record of manual statements: actor, action and reason. No foreign key: the record outlives the task.
CREATE TABLE orchestrator.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    actor text NOT NULL DEFAULT session_user,
    action text NOT NULL,
    task_id bigint,
    queue text,
    reason text,
    details jsonb
);
CREATE INDEX audit_task_idx ON orchestrator.audit (task_id);
CREATE INDEX audit_at_idx ON orchestrator.audit (at);

-- The workers' counts, by the minute and, for longer periods, by the hour: a day by the hour has a sixtieth of the rows
-- (docs/decisions/0015-histograms-by-the-minute-and-the-hour.md). Only record_statistics() writes them. It updates the
-- rows of the current minute and hour again and again, so the fillfactor leaves room for HOT updates.
CREATE TABLE orchestrator.statistics (
    minute timestamptz NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    wait_seconds double precision NOT NULL DEFAULT 0,
    run_seconds double precision NOT NULL DEFAULT 0,
    wait jsonb NOT NULL DEFAULT '{}',
    run jsonb NOT NULL DEFAULT '{}',
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    timed_out bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    snoozed bigint NOT NULL DEFAULT 0,
    put_back bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, queue, type)
) WITH (fillfactor = 70);
CREATE TABLE orchestrator.statistics_by_hour (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    wait_seconds double precision NOT NULL DEFAULT 0,
    run_seconds double precision NOT NULL DEFAULT 0,
    wait jsonb NOT NULL DEFAULT '{}',
    run jsonb NOT NULL DEFAULT '{}',
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    timed_out bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    snoozed bigint NOT NULL DEFAULT 0,
    put_back bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, queue, type)
) WITH (fillfactor = 70);
