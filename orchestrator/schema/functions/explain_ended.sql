-- The part of explanation() about a task that is completed, cancelled or a dead letter: when, how and why it ended.
CREATE OR REPLACE FUNCTION orchestrator.explain_ended(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT
        t.status,
        CASE t.status
            WHEN 'completed' THEN format(
                'task %s has completed, at %s (%s ago), in attempt %s of %s%s. To run it once more:',
                t.id, t.finished_at::timestamptz(0), s.ago, t.attempt, t.max_attempts,
                ', after ' || orchestrator.format_interval(t.finished_at - t.started_at)
            )
            WHEN 'cancelled' THEN format(
                'task %s was cancelled at %s (%s ago)%s. To run it all the same:', t.id, t.finished_at::timestamptz(0), s.ago,
                CASE WHEN t.error ->> 'class' = 'Cancelled'
                    THEN ' by its handler' || coalesce(': ' || left(t.error ->> 'message', 300), '')
                    ELSE (
                        SELECT ' by ' || a.actor || coalesce(': ' || left(a.reason, 300), '')
                        FROM orchestrator.audit AS a
                        WHERE a.task_id = t.id AND a.action = 'cancel'
                        ORDER BY a.id DESC
                        LIMIT 1
                    )
                END
            )
            ELSE format(
                'task %s is a dead letter since %s (%s ago): %s%s. When the cause is mended:',
                t.id, t.finished_at::timestamptz(0), s.ago,
                CASE
                    WHEN t.error ->> 'class' = 'WorkerLost' THEN format('%s workers died while they ran it', t.losses)
                    WHEN t.attempt < t.max_attempts THEN 'it failed for good'
                    ELSE format('all of its %s attempts have failed', t.max_attempts)
                END,
                coalesce(': ' || left(t.error ->> 'class', 200), '') || coalesce(': ' || left(t.error ->> 'message', 300), '')
            )
        END,
        format('SELECT orchestrator.requeue(%s);', t.id)
    FROM orchestrator.tasks AS t
    CROSS JOIN LATERAL (SELECT orchestrator.format_interval(orchestrator.clock() - t.finished_at) AS ago) AS s
    WHERE t.id = explain_ended.task_id
    LIMIT 1
$$;
