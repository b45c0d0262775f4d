-- Row trigger on an UPDATE that leaves the lease alone, as manual ones do: refuse a change that makes no sense, and
-- complete one that does, so that `SET status = 'pending'` is a whole requeue.
-- Three of a worker's writes leave the lease alone, too. The start of an attempt sets started_at, which an operator may
-- not set. The sweep changes only the status, and only of due tasks. An unblocked task keeps its place in the order,
-- because it has waited; an operator's statement that unblocks a task does the same.
-- SECURITY DEFINER, because only our own functions may call position_of.
CREATE OR REPLACE FUNCTION orchestrator.guard_manual_update()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    waits CONSTANT boolean := OLD.status IN ('scheduled', 'blocked', 'pending');
    now CONSTANT timestamptz := orchestrator.clock();
    advice text;
BEGIN
    IF NEW.priority IS NOT DISTINCT FROM OLD.priority AND NEW.run_at IS NOT DISTINCT FROM OLD.run_at THEN
        IF NEW.status IS NOT DISTINCT FROM OLD.status
            OR OLD.status = 'claimed' AND NEW.status = 'running' AND OLD.started_at IS DISTINCT FROM NEW.started_at
            OR OLD.status = 'scheduled' AND NEW.status = 'pending' AND OLD.run_at <= now
            OR OLD.status = 'blocked' AND NEW.status IN ('pending', 'scheduled')
        THEN
            RETURN NEW;
        END IF;
    END IF;
    IF NEW.priority IS NULL OR NEW.priority NOT BETWEEN 0 AND 100 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('task %s: the priority is %s; it must lie between 0 and 100', OLD.id, coalesce(NEW.priority::text, 'NULL')),
            HINT = '25 is low, 50 normal, 75 high, 100 critical.';
    END IF;
    IF NEW.run_at IS DISTINCT FROM OLD.run_at THEN
        IF NEW.run_at IS NULL OR NOT isfinite(NEW.run_at) OR NEW.run_at NOT BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC' THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR006',
                MESSAGE = format(
                    'task %s: run_at is %s; it must lie between the years 1970 and 9000',
                    OLD.id, coalesce(NEW.run_at::text, 'NULL')
                ),
                HINT = 'To run it now, set run_at = now().';
        END IF;
        -- tasks_refuse_done_update and tasks_refuse_dead_update refuse the change for a finished task.
        IF OLD.status IN ('claimed', 'running') AND NEW.status NOT IN ('pending', 'scheduled') THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR001',
                MESSAGE = format('task %s is %s; run_at can be changed only while it waits', OLD.id, OLD.status),
                HINT = format('To run it again then: UPDATE orchestrator.tasks SET status = ''pending'', run_at = … WHERE id = %s', OLD.id);
        END IF;
        -- A new time for a waiting task decides between scheduled and pending, whatever status the statement sets.
        IF NEW.status IN ('pending', 'scheduled') THEN
            NEW.status := CASE WHEN NEW.run_at > now THEN 'scheduled' ELSE 'pending' END;
        END IF;
    END IF;

    IF NEW.status = OLD.status THEN
        RETURN NEW;
    ELSIF NEW.status = 'scheduled' AND NEW.run_at > now AND NEW.run_at <> OLD.run_at THEN
        NULL;
    ELSIF NEW.status = 'pending' THEN
        IF NEW.run_at = OLD.run_at OR NEW.run_at > now THEN
            NEW.run_at := now;
        END IF;
    ELSIF NEW.status = 'cancelled' AND OLD.finished_at IS NULL THEN
        IF to_regclass('orchestrator.tasks_done_' || to_char(now AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = '23514',
                MESSAGE = format('task %s cannot be moved: tasks_done has no leaf for today', OLD.id),
                HINT = 'SELECT orchestrator.ensure_partition(); makes it. Then try again.';
        END IF;
        NEW.finished_at := now;
        -- Its worker is fenced off; worker_id stays, to name that worker.
        NEW.lease := NULL;
        RETURN NEW;
    ELSE
        advice := CASE
            WHEN NEW.status = 'cancelled' AND OLD.status = 'dead_letter' THEN 'It will not run again by itself. DELETE it if it is not wanted.'
            WHEN NEW.status = 'cancelled' THEN 'It has already finished. To run it again, set status = ''pending''.'
            WHEN NEW.status = 'scheduled' THEN 'Set run_at to a time in the future; the status follows.'
            WHEN NEW.status = 'dead_letter' THEN 'Only a worker gives a task up. To stop it, set status = ''cancelled''.'
            WHEN NEW.status = 'blocked' THEN 'Only a dependency blocks a task. To stop a queue: SELECT orchestrator.pause_queue(…).'
            WHEN NEW.status IN ('claimed', 'running', 'completed') THEN 'Only a worker does that. To run it now, set status = ''pending''.'
            ELSE 'The statuses are scheduled, blocked, pending, claimed, running, completed, cancelled and dead_letter.'
        END;
        RAISE EXCEPTION USING
            ERRCODE = 'OR001',
            MESSAGE = format('task %s is %s, and a manual change cannot make it %s', OLD.id, OLD.status, trim(orchestrator.quote_short(NEW.status), '''')),
            HINT = advice;
    END IF;

    -- The task waits again. One that had begun or ended gets fresh attempts. Clearing the lease fences off a worker
    -- that may still run it.
    IF NOT waits THEN
        NEW.attempt := 0;
        NEW.losses := 0;
        NEW.error := NULL;
        NEW.result := NULL;
        NEW.progress := NULL;
    END IF;
    -- The finish takes a task for plain if `holds` is NULL, as it is on every ended row, and does not tell its gates. An
    -- empty array: a waiting task holds no permit.
    IF num_nonnulls(
        NEW.holds,
        -- generated: only of features of NEW
        NEW.workflow_id, NEW.tenant, NEW.limits, NEW.requires, NEW.gates
        -- end
    ) > 0 THEN
        NEW.holds := '{}';
    END IF;
    NEW.lease := NULL;
    NEW.worker_id := NULL;
    NEW.claimed_at := NULL;
    NEW.started_at := NULL;
    NEW.finished_at := NULL;
    -- run_at may be changed above, in a statement that does not name it: tasks_place does not fire then.
    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
    RETURN NEW;
END
$$;
