-- The books of a run: a schema beside the product's, filled by triggers, by handlers, and at the end from files.

CREATE SCHEMA chaos;

-- Each change of a task's status, lease or attempt, in the transaction that made it. A row that moves between leaves
-- leaves two: D, then I. `who` is the process (w3.2: the second in the third place), as its connections say; `purpose`,
-- which of its connections.
CREATE TABLE chaos.trail (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op "char" NOT NULL,
    task_id bigint NOT NULL,
    old_status text, old_lease bigint, old_worker uuid, old_attempt smallint, old_losses smallint,
    new_status text, new_lease bigint, new_worker uuid, new_attempt smallint, new_finished_at timestamptz,
    max_attempts smallint, losses smallint, said_lease bigint, error_class text,
    type text, token text, key text,
    who text, purpose text, role text, leader uuid
);

-- Each change of a worker's state or lead.
CREATE TABLE chaos.lives (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    worker_id uuid NOT NULL,
    state text NOT NULL, is_leader boolean NOT NULL, term bigint,
    who text, purpose text
);

-- Two rows an execution, over a connection of the handlers' own: begun, and ended, if it came to that.
CREATE TABLE chaos.ledger (
    execution uuid NOT NULL,
    what text NOT NULL,
    task_id bigint NOT NULL, attempt integer NOT NULL, lease bigint NOT NULL, token text NOT NULL,
    who text NOT NULL, how text,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (execution, what)
);
CREATE INDEX ON chaos.ledger (at);

-- One row an effect, in the transaction that completes its task. No key: a second one must be seen.
CREATE TABLE chaos.effects (
    task_id bigint NOT NULL, attempt integer NOT NULL, lease bigint NOT NULL, who text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- From files, when all is over. verdict: acknowledged, in doubt, refused (the client was told that nothing was enqueued),
-- rolled back (by the client itself).
CREATE TABLE chaos.journal (
    producer text NOT NULL, n bigint NOT NULL, way text NOT NULL,
    token text NOT NULL, type text NOT NULL, key text,
    verdict text NOT NULL, task_id bigint, at timestamptz, said text
);
CREATE TABLE chaos.faults (at timestamptz NOT NULL, kind text NOT NULL, target text, detail text);
CREATE TABLE chaos.freezes (since timestamptz NOT NULL, who text NOT NULL, until timestamptz NOT NULL);
CREATE TABLE chaos.samples (
    at timestamptz NOT NULL, who text NOT NULL, mib real, threads integer, files integer, sockets integer
);
-- expected: somebody killed it, or told it to stop, and it ended so.
CREATE TABLE chaos.ends (at timestamptz NOT NULL, who text NOT NULL, status integer NOT NULL, expected boolean NOT NULL);
CREATE TABLE chaos.log (who text NOT NULL, event text NOT NULL, number bigint NOT NULL);
-- What workers said of themselves, and of leases; and what they had counted when they ended.
CREATE TABLE chaos.metrics (who text NOT NULL, name text NOT NULL, value bigint NOT NULL);
CREATE TABLE chaos.worker_events (at timestamptz NOT NULL, who text NOT NULL, event text NOT NULL, worker_id uuid, task_id bigint);

CREATE FUNCTION chaos.note() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    purpose CONSTANT text := current_setting('application_name');
    leader uuid;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.status, OLD.lease, OLD.attempt) IS NOT DISTINCT FROM (NEW.status, NEW.lease, NEW.attempt) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF purpose IN ('orchestrator lead', 'orchestrator housekeeping') THEN
        SELECT w.id INTO leader FROM orchestrator.workers AS w WHERE w.is_leader;
    END IF;
    INSERT INTO chaos.trail (
        op, task_id, old_status, old_lease, old_worker, old_attempt, old_losses,
        new_status, new_lease, new_worker, new_attempt, new_finished_at, max_attempts, losses, said_lease, error_class, type, token, key, who, purpose, role, leader
    )
    SELECT
        left(TG_OP, 1), coalesce(n.id, o.id),
        o.status, o.lease, o.worker_id, o.attempt, o.losses,
        n.status, n.lease, n.worker_id, n.attempt, n.finished_at,
        coalesce(n.max_attempts, o.max_attempts), coalesce(n.losses, o.losses),
        (n.result ->> 'lease')::bigint, n.error ->> 'class',
        CASE WHEN TG_OP = 'INSERT' THEN n.type END,
        CASE WHEN TG_OP = 'INSERT' THEN n.payload ->> 'token' END,
        CASE WHEN TG_OP = 'INSERT' THEN n.idempotency_key END,
        nullif(current_setting('chaos.who', true), ''), purpose, session_user, leader
    FROM (SELECT) AS one
    LEFT JOIN (SELECT OLD.*) AS o ON TG_OP <> 'INSERT'
    LEFT JOIN (SELECT NEW.*) AS n ON TG_OP <> 'DELETE';
    RETURN NULL;
END
$$;
CREATE TRIGGER chaos_note AFTER INSERT OR UPDATE OR DELETE ON orchestrator.tasks FOR EACH ROW EXECUTE FUNCTION chaos.note();

CREATE FUNCTION chaos.note_life() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO chaos.lives (worker_id, state, is_leader, term, who, purpose)
    VALUES (
        NEW.id, NEW.state, NEW.is_leader, NEW.term,
        nullif(current_setting('chaos.who', true), ''), current_setting('application_name')
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER chaos_note_birth AFTER INSERT ON orchestrator.workers
    FOR EACH ROW EXECUTE FUNCTION chaos.note_life();
CREATE TRIGGER chaos_note_life AFTER UPDATE ON orchestrator.workers FOR EACH ROW
    WHEN ((OLD.state, OLD.is_leader, OLD.term) IS DISTINCT FROM (NEW.state, NEW.is_leader, NEW.term))
    EXECUTE FUNCTION chaos.note_life();

-- A feature that counts. Every third task feeds a gate, and each of its leases holds two permits: so plain tasks and
-- others are finished side by side, and whatever ends a lease under fire has to give back what it held. Every second of
-- these has a lane, which is its first permit: only the source of tests/feature/lane_limits claims it, and only while
-- few tasks of that lane are leased.
CREATE FUNCTION chaos.feed_gates() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.gates := ARRAY[NEW.id % 16];
    NEW.holds := coalesce(NEW.holds, '{}');
    NEW.lane := CASE WHEN NEW.id % 2 = 0 THEN 100 + NEW.id % 16 END;
    RETURN NEW;
END
$$;
-- By its name it comes after tasks_fill, which draws the id.
CREATE TRIGGER tasks_then_feed_gates BEFORE INSERT ON orchestrator.tasks_live
    FOR EACH ROW WHEN (NEW.id % 3 = 0) EXECUTE FUNCTION chaos.feed_gates();
CREATE FUNCTION chaos.take_permits() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.holds := ARRAY[100 + NEW.id % 16, 200 + NEW.id % 7];
    RETURN NEW;
END
$$;
CREATE TRIGGER chaos_take_permits BEFORE UPDATE ON orchestrator.tasks_live
    FOR EACH ROW WHEN (NEW.id % 3 = 0 AND OLD.lease IS NULL AND NEW.lease IS NOT NULL) EXECUTE FUNCTION chaos.take_permits();
