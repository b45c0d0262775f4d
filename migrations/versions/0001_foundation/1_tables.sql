-- The tables, sequences and indexes of the first revision. The schema itself, the advisory lock and the
-- version table are the runner's (migrations/env.py). Functions come in 2_functions.sql; only clock() is
-- here, since a column default needs it.

-- All time is the database's, through this one function, so that a test can replace it in its own database.
-- STABLE, because a VOLATILE clock turns the claim's index scan into a sequential one; statement_timestamp(),
-- because a body of the same volatility is inlined. Its meaning: when the client's statement arrived.
CREATE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.statement_timestamp() $$;

CREATE SEQUENCE orchestrator.tasks_id_seq AS bigint;

-- Numbers the leaders' terms; drawn at each election.
CREATE SEQUENCE orchestrator.term_seq AS bigint;

-- One row: what holds for the whole installation.
CREATE TABLE orchestrator.settings (
    only_row boolean PRIMARY KEY DEFAULT true CONSTRAINT settings_only_row_check CHECK (only_row),
    -- The oldest schema revision a worker may have been built for and still run on this schema.
    oldest_code integer NOT NULL,
    payload_bytes_max integer NOT NULL DEFAULT 262144
        CONSTRAINT settings_payload_bytes_max_check CHECK (payload_bytes_max > 0),
    keep_audit interval NOT NULL DEFAULT interval '90 days'
        CONSTRAINT settings_keep_audit_check CHECK (keep_audit BETWEEN interval '0' AND interval '1000 years'),
    -- The rows of workers that stopped or died.
    keep_workers interval NOT NULL DEFAULT interval '1 day'
        CONSTRAINT settings_keep_workers_check CHECK (keep_workers BETWEEN interval '0' AND interval '1000 years'),
    -- By the hour; those by the minute for two days at most.
    keep_statistics interval NOT NULL DEFAULT interval '14 days'
        CONSTRAINT settings_keep_statistics_check CHECK (keep_statistics BETWEEN interval '0' AND interval '1000 years')
);
INSERT INTO orchestrator.settings (oldest_code) VALUES (1);

-- Where these tables are at home: one row, by set_home(). `place` is the transaction that wrote the row, and the oids
-- of the database, this table, tasks_live and workers (docs/decisions/0007-a-restored-copy-runs-nothing.md). Whatever
-- brings the row elsewhere brings a row that is not at home. No key: a restore into tables that have a row of their own
-- would fail at it and go unnoticed; it adds a second one. Nothing else may ever write here, nor rewrite the table.
CREATE TABLE orchestrator.home (
    place oid[] NOT NULL,
    database text NOT NULL DEFAULT current_database(),
    since timestamptz NOT NULL DEFAULT orchestrator.clock()
);
ALTER TABLE orchestrator.home REPLICA IDENTITY FULL;

-- These bounds keep the arithmetic of those who read all rows at once within what a timestamp holds; a trigger says them
-- in words (guard_queue, guard_type).
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
    -- Each point of priority is worth this much waiting; 1000 years is strict priority.
    aging interval NOT NULL DEFAULT interval '1000 years'
        CONSTRAINT queues_aging_check CHECK (aging BETWEEN interval '0' AND interval '1000 years'),
    keep_finished interval NOT NULL DEFAULT interval '7 days'
        CONSTRAINT queues_keep_finished_check CHECK (keep_finished BETWEEN interval '0' AND interval '1000 years'),
    keep_dead interval NOT NULL DEFAULT interval '30 days'
        CONSTRAINT queues_keep_dead_check CHECK (keep_dead BETWEEN interval '0' AND interval '1000 years')
);
INSERT INTO orchestrator.queues (name) VALUES ('default');

-- What workers and `orchestrator migrate` have declared: the defaults of a task that SQL enqueues, and how
-- long an orphan of this type waits for its next attempt. NULL means: ask the queue, then the house.
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
    -- NaN is greater than every number here, so a BETWEEN refuses it.
    backoff_factor double precision NOT NULL DEFAULT 2
        CONSTRAINT types_backoff_factor_check CHECK (backoff_factor BETWEEN 1 AND 1000),
    backoff_cap interval NOT NULL DEFAULT interval '300 seconds'
        CONSTRAINT types_backoff_cap_check CHECK (backoff_cap BETWEEN interval '0' AND interval '100 years'),
    backoff_jitter double precision NOT NULL DEFAULT 0.1
        CONSTRAINT types_backoff_jitter_check CHECK (backoff_jitter BETWEEN 0 AND 1),
    declared_at timestamptz NOT NULL DEFAULT orchestrator.clock()
);

CREATE TABLE orchestrator.tasks (
    -- No default: fill_new_task draws it, so that it can tell a chosen id from a drawn one.
    id bigint NOT NULL,
    -- The order of execution, in microseconds. Not a timestamptz: Python cannot load the year 52026.
    -- date_part, not extract, which goes through numeric.
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
    -- What waits and passes together (limits, tenant, capabilities); NULL for a plain task.
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
    -- One of those that a leaf is for: the bounds say so, and a CHECK beside them would cost each INSERT 4 µs.
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
    -- The permits that the lease holds, given back wherever a lease ends. NULL for a plain task, and for no other: that is
    -- how the finish knows one. A task that feeds gates and holds nothing has an empty array.
    holds bigint[],
    -- What waits for the end of this task.
    gates bigint[]
) PARTITION BY LIST (status);

-- Claims and outcomes name the leaf: tasks_live.
CREATE TABLE orchestrator.tasks_live PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_live_pkey PRIMARY KEY (id),
    -- A lease is held exactly while a worker has the task.
    CONSTRAINT tasks_live_lease_check CHECK (
        (lease IS NOT NULL) = (status IN ('claimed', 'running')) AND (worker_id IS NOT NULL) = (lease IS NOT NULL)
    ),
    CONSTRAINT tasks_live_finished_check CHECK (finished_at IS NULL)
) FOR VALUES IN ('scheduled', 'blocked', 'pending', 'claimed', 'running')
WITH (
    -- Every task leaves two dead rows here; a vacuum must come by the thousand, not by the fraction.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1
);

-- One leaf per UTC day, made ahead by ensure_partition. No DEFAULT leaf: each ATTACH would scan it under an
-- exclusive lock. A finished row keeps its lease, so that an outcome sent twice is recognised as the same.
CREATE TABLE orchestrator.tasks_done PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_done_finished_check CHECK (finished_at IS NOT NULL)
) FOR VALUES IN ('completed', 'cancelled')
PARTITION BY RANGE (finished_at);

CREATE TABLE orchestrator.tasks_dead PARTITION OF orchestrator.tasks (
    CONSTRAINT tasks_dead_pkey PRIMARY KEY (id),
    CONSTRAINT tasks_dead_finished_check CHECK (finished_at IS NOT NULL)
) FOR VALUES IN ('dead_letter');

-- The claim's path. What has a lane is not in it, so that a task that must wait lies in no claim's way.
CREATE INDEX tasks_live_claim_idx ON orchestrator.tasks_live (queue, position, id) WHERE status = 'pending' AND lane IS NULL;
-- The sweep's path: a million future tasks cost a claim nothing.
CREATE INDEX tasks_live_due_idx ON orchestrator.tasks_live (run_at) WHERE status = 'scheduled';
-- "Whose tasks are these?" The predicate names worker_id alone: the finish names id and lease, so it can
-- never be planned through this index (docs/decisions/0002-find-the-tasks-of-a-worker.md).
CREATE INDEX tasks_live_worker_idx ON orchestrator.tasks_live (worker_id) WHERE worker_id IS NOT NULL;
-- The newest-first list of dead letters.
CREATE INDEX tasks_dead_finished_idx ON orchestrator.tasks_dead (finished_at);
-- Retention. Not by finished_at alone: what one queue keeps for years would lie before what another has due.
CREATE INDEX tasks_dead_queue_idx ON orchestrator.tasks_dead (queue, finished_at);

-- Where a lease ends, the statement that ends it gives back what the lease held, and where a task ends, it tells the gates
-- that the task feeds: one row for each key of a statement. Both tables are only appended to, so that no end waits for
-- another; whatever reads them deletes the rows.
CREATE TABLE orchestrator.permits_returned (
    id bigint GENERATED ALWAYS AS IDENTITY,
    hold bigint NOT NULL,
    permits bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- `ended` and `failed` are negative where a task that had ended is requeued. `lost`: of the failed, those whose row is gone.
CREATE TABLE orchestrator.gate_changes (
    id bigint GENERATED ALWAYS AS IDENTITY,
    gate bigint NOT NULL,
    ended bigint NOT NULL,
    failed bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX gate_changes_gate_idx ON orchestrator.gate_changes (gate);

-- One row a process, a new id at each start: an id is never used twice, so nobody inherits its tasks.
CREATE TABLE orchestrator.workers (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    -- What it has handlers for, so that it can be said of a task that nobody has one; NULL: it did not say. Long lists are
    -- stored apart, and a beat copies none of them.
    types text[],
    capacity integer NOT NULL,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT workers_state_check CHECK (state IN ('running', 'draining', 'stopped', 'dead')),
    started_at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    beat_at timestamptz NOT NULL DEFAULT orchestrator.clock(),
    -- The worker's setting dead_after_seconds: without a beat for so long it is dead. Each worker is judged by its own.
    dead_after interval NOT NULL DEFAULT interval '30 seconds'
        CONSTRAINT workers_dead_after_check CHECK (dead_after > interval '0' AND dead_after <= interval '1000 days'),
    -- Asleep in LISTEN until then: producers ring only for sleepers, and a killed one is not rung for ever.
    idle_until timestamptz,
    beacon bigint,
    -- Since when its event loop does not turn, by its last beat; NULL: it turns.
    blocked_at timestamptz,
    is_leader boolean NOT NULL DEFAULT false,
    leader_until timestamptz,
    term bigint,
    -- The oid of the table in which the row was made, by trigger. In a restored dump it is another's, and 0 in a row made
    -- there: such a worker claims nothing.
    workplace oid NOT NULL,
    -- Python reads them, and a time that it cannot load would keep every worker from its beat.
    CONSTRAINT workers_times_check CHECK (
        least(started_at, beat_at, idle_until, leader_until) >= '1970-01-01 UTC'
        AND greatest(started_at, beat_at, idle_until, leader_until) <= '9000-01-01 UTC'
    ),
    CONSTRAINT workers_leader_check CHECK (NOT is_leader OR (term IS NOT NULL AND leader_until IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
-- The living, for whoever asks at each enqueue: the rows of the stopped must cost it nothing. Not by beat_at, or no
-- beat could be a HOT update.
CREATE INDEX workers_live_idx ON orchestrator.workers (id) WHERE state IN ('running', 'draining');
CREATE UNIQUE INDEX workers_one_leader_idx ON orchestrator.workers (is_leader) WHERE is_leader;

-- One row for each execution that began and left its task unfinished or dead; what completed or was cancelled is its own
-- record. `lost`: the worker or the lease was gone before it ended. `released` and `snoozed` do not count as attempts, so
-- several rows may have the same number.
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
-- One record a lease: a worker that was cut off and the leader may both write it.
CREATE UNIQUE INDEX attempts_task_idx ON orchestrator.attempts (task_id, lease);
-- Retention; by queue, as that of tasks_dead.
CREATE INDEX attempts_queue_idx ON orchestrator.attempts (queue, finished_at);

CREATE TABLE orchestrator.idempotency_keys (
    type text NOT NULL,
    key text NOT NULL,
    task_id bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (type, key)
);
CREATE INDEX idempotency_keys_expires_idx ON orchestrator.idempotency_keys (expires_at);

-- What the leader counted last, a row a queue: so that a look at the whole costs nothing where to count is dear. Each
-- sample replaces the one before. `took` is what counting took, of all queues.
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

-- Who did what by hand. No foreign key: the record outlives the task.
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

-- What workers have counted, by the minute and, for looking further back, by the hour: of a day that is a sixtieth of the
-- rows (docs/decisions/0015-histograms-by-the-minute-and-the-hour.md). Written by record_statistics() alone, over and
-- over while their time lasts: so there is room in each page for new versions, which need no new index entry.
CREATE TABLE orchestrator.statistics (
    minute timestamptz NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    timed_out bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    snoozed bigint NOT NULL DEFAULT 0,
    put_back bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    wait_seconds double precision NOT NULL DEFAULT 0,
    run_seconds double precision NOT NULL DEFAULT 0,
    wait jsonb NOT NULL DEFAULT '{}',
    run jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (minute, queue, type)
) WITH (fillfactor = 70);
CREATE TABLE orchestrator.statistics_by_hour (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    timed_out bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    snoozed bigint NOT NULL DEFAULT 0,
    put_back bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    wait_seconds double precision NOT NULL DEFAULT 0,
    run_seconds double precision NOT NULL DEFAULT 0,
    wait jsonb NOT NULL DEFAULT '{}',
    run jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (hour, queue, type)
) WITH (fillfactor = 70);
