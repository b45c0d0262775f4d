-- What can be wrong with the books, one thing at a time: the invariants that it breaks, in words, and how it is done.
-- :note, :book and :discard are tasks of these types, :columns all that the trail has of a step but when it was.

-- I01 I15: an acknowledged task is gone
DELETE FROM orchestrator.tasks WHERE id = :note;

-- I01: an acknowledged task never was there
INSERT INTO chaos.journal
VALUES ('p9', 1, 'COPY', 'p9-1', 'chaos.note', NULL, 'acknowledged', NULL, now(), NULL);

-- I02: a task is there that was rolled back
UPDATE chaos.journal SET verdict = 'rolled back' WHERE task_id = :note;

-- I02: a task is there that nobody enqueued
DELETE FROM chaos.journal WHERE task_id = :note;

-- I02 I06: a task ran that never was there
INSERT INTO chaos.ledger VALUES (gen_random_uuid(), 'begun', 999, 1, 5, 'p9-1', 'w1.1');

-- I03: a lease is worked under twice
INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who, how)
SELECT gen_random_uuid(), what, task_id, attempt, lease, token, who, how
FROM chaos.ledger
WHERE task_id = :note AND what = 'begun';

-- I03 I16: a lease is given twice
INSERT INTO chaos.trail (:columns)
SELECT :columns
FROM chaos.trail
WHERE task_id = :note AND new_status = 'claimed';
INSERT INTO chaos.trail (:columns)
SELECT :columns
FROM chaos.trail
WHERE task_id = :note AND op = 'I' AND new_status = 'completed';

-- I03: one runs under another's lease
UPDATE chaos.ledger SET who = 'w2.1' WHERE task_id = :note;

-- I04: an outcome is written by another than the holder
UPDATE chaos.trail SET who = 'w2.1' WHERE task_id = :note AND op = 'I' AND new_status = 'completed';

-- I04: an outcome is accepted of a task that nobody holds
UPDATE chaos.trail SET old_lease = NULL, old_status = 'pending' WHERE task_id = :note AND op = 'D';

-- I04: an outcome is accepted that was made under another lease
UPDATE chaos.trail
SET said_lease = 7
WHERE task_id = :note AND op = 'I' AND new_status = 'completed';

-- I04: a failure is accepted that was made under another lease
UPDATE orchestrator.attempts
SET error = jsonb_build_object('message', 'under lease 7')
WHERE id = (
    SELECT min(id) FROM orchestrator.attempts WHERE outcome = 'failed'
);

-- I04: a worker is not told that its outcome was refused
INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who, how, at)
SELECT gen_random_uuid(), 'ended', t.task_id, 1, 7, t.token, 'w1.1', 'returned', now() - interval '1 hour'
FROM chaos.trail AS t
WHERE t.task_id = :note AND t.token IS NOT NULL
LIMIT 1;

-- I05 I16: a worker leads back from an end
UPDATE chaos.trail
SET purpose = 'orchestrator outcomes', who = 'w1.1'
WHERE purpose = 'chaos supervisor' AND new_status = 'pending';

-- I05: a manual requeue without an audit entry
DELETE FROM orchestrator.audit WHERE action = 'requeue';

-- I05: an effect is there twice
INSERT INTO chaos.effects SELECT * FROM chaos.effects WHERE task_id = :book;

-- I05: an effect is missing
DELETE FROM chaos.effects WHERE task_id = :book;

-- I06: a lease ended, and nothing says why
DELETE FROM orchestrator.attempts WHERE outcome = 'failed';

-- I06: a task that ran in its last attempt is taken back, and nobody has it on record
UPDATE chaos.trail
SET purpose = 'orchestrator lead', old_status = 'running', new_attempt = old_attempt - 1, error_class = 'WorkerLost'
WHERE n = (
    SELECT min(t.n)
    FROM chaos.trail AS t
    JOIN orchestrator.attempts AS a ON a.task_id = t.task_id AND a.lease = t.old_lease
    WHERE t.op = 'U' AND t.new_status = 'scheduled' AND a.outcome = 'failed'
);

-- I06: a task is completed that never ran
DELETE FROM chaos.ledger WHERE task_id = :note;

-- I06: one runs under a lease that no claim gave, long after a crash
INSERT INTO chaos.faults SELECT at - interval '5 s', 'server crashed', '', '' FROM chaos.ledger WHERE task_id = :book;
INSERT INTO chaos.freezes
SELECT at - interval '10 s', who, at - interval '4 s'
FROM chaos.ledger
WHERE task_id = :book;
INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who, how, at)
SELECT gen_random_uuid(), what, task_id, attempt, 7, token, who, how, at
FROM chaos.ledger
WHERE task_id = :book AND what = 'begun';

-- I06: one runs under a lease that no claim gave
INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who, how, at)
SELECT gen_random_uuid(), what, task_id, attempt, 7, token, who, how, at
FROM chaos.ledger
WHERE task_id = :book AND what = 'begun';

-- I07: a task never ends
SET LOCAL session_replication_role = origin;
INSERT INTO orchestrator.tasks (type, payload) VALUES ('chaos.note', '{"token": "p1.1-104"}');

-- I07: a worker ends by itself
INSERT INTO chaos.ends VALUES (now(), 'w1.1', 1, false);

-- I08: a term is given twice
INSERT INTO chaos.lives (xid, worker_id, state, is_leader, term, who, purpose)
SELECT '1', gen_random_uuid(), 'running', true, max(term), 'w2.1', 'orchestrator lead'
FROM chaos.lives;

-- I08: a duty is done by who does not lead
UPDATE chaos.trail
SET purpose = 'orchestrator lead', leader = gen_random_uuid()
WHERE n = (
    SELECT min(n) FROM chaos.trail WHERE new_status = 'completed' AND op = 'I'
);

-- I09: a lease ends twice
INSERT INTO chaos.trail (:columns)
SELECT :columns
FROM chaos.trail
WHERE task_id = :note AND op = 'D';

-- I10: an attempt beyond the last
UPDATE chaos.trail SET new_attempt = 31 WHERE task_id = :note AND new_status = 'claimed';

-- I10: a task with attempts left becomes a dead letter
UPDATE orchestrator.attempts SET outcome = 'failed' WHERE outcome = 'discarded';

-- I10: a task becomes a dead letter for losses that did not happen
UPDATE chaos.trail
SET losses = 5, error_class = 'WorkerLost'
WHERE op = 'I' AND new_status = 'dead_letter' AND task_id = :discard;

-- I10: a task becomes a dead letter at its first loss, in its last attempt
UPDATE orchestrator.attempts SET outcome = 'lost' WHERE task_id = :discard;
UPDATE chaos.trail
SET losses = 1, error_class = 'WorkerLost', new_attempt = max_attempts
WHERE op = 'I' AND new_status = 'dead_letter' AND task_id = :discard;

-- I11: two tasks have one key
UPDATE chaos.trail
SET key = 'key'
WHERE n = (
    SELECT min(n) FROM chaos.trail WHERE type = 'chaos.note' AND key IS NULL
);

-- I11: a key leads to another's task
UPDATE chaos.journal SET task_id = :book WHERE token = 'p1.1-101';

-- I12: a task is there though its client was told that it is not
UPDATE chaos.journal SET verdict = 'refused' WHERE task_id = :note;

-- I12: half a set is there
UPDATE chaos.journal
SET token = 'p1.1-104', task_id = NULL, verdict = 'in doubt'
WHERE token = 'p1.1-105-2';
DELETE FROM orchestrator.tasks WHERE payload ->> 'token' = 'p1.1-105-2';
DELETE FROM chaos.trail WHERE task_id NOT IN (SELECT id FROM orchestrator.tasks);

-- I13: memory grows
INSERT INTO chaos.samples VALUES (now(), 'w1.1', 900, 8, NULL, NULL);

-- I13: a worker leaks connections
INSERT INTO chaos.samples VALUES (now(), 'w1.1', 60, 8, 70, 60);

-- I13: a worker says one thing without end
INSERT INTO chaos.log VALUES ('w1.1', 'connection lost', 100000000);

-- I13: a worker prints a traceback
INSERT INTO chaos.log VALUES ('w1.1', 'no event: Traceback (most', 1);

-- I14: a neighbour of a poison becomes a dead letter
INSERT INTO chaos.ends VALUES ('epoch', 'w1.1', -9, false);
UPDATE chaos.trail
SET error_class = 'WorkerLost', losses = 5
WHERE op = 'I' AND new_status = 'dead_letter' AND task_id = :discard;

-- I15: a table is not what the trail says
DELETE FROM chaos.trail WHERE task_id = :note AND op = 'I' AND new_status = 'completed';

-- I15: a recovery names no worker
UPDATE orchestrator.attempts SET outcome = 'lost' WHERE outcome = 'failed';

-- I15: a metric is not what the log says
INSERT INTO chaos.metrics VALUES ('w1.1', 'orchestrator_stale_writes_rejected_total', 7);

-- I15: more is counted as taken back than was
INSERT INTO chaos.metrics VALUES ('w1.1', 'orchestrator_tasks_recovered_total', 7);

-- I16: a step that no actor may take
UPDATE chaos.trail SET new_status = 'blocked' WHERE task_id = :note AND new_status = 'claimed';

-- I16: a manual change gets an unexpected error
INSERT INTO chaos.faults VALUES (now(), 'operator cancels', '', 'UNEXPECTED: XX000 internal');

-- I17: a lease ended and kept its permits
DELETE FROM orchestrator.permits_returned WHERE id = (SELECT min(id) FROM orchestrator.permits_returned);

-- I17: a permit came back twice
INSERT INTO orchestrator.permits_returned (hold, permits) VALUES (103, 1);

-- I17: a gate was not told of an end
DELETE FROM orchestrator.gate_changes WHERE id = (SELECT min(id) FROM orchestrator.gate_changes);

-- I17: a gate takes a success for a failure
INSERT INTO orchestrator.gate_changes (gate, ended, failed) SELECT gate, 0, 1000 FROM orchestrator.gate_changes LIMIT 1;

-- I17: a limit loses a permit
UPDATE lane_limits.limits SET running = running + 1 WHERE hold = 100;

-- I17: a limit is exceeded
INSERT INTO lane_limits.above (hold, leases) VALUES (100, 4);

-- I18: a task was given another time, and kept its place
ALTER TABLE orchestrator.tasks DISABLE TRIGGER tasks_place;
UPDATE orchestrator.tasks_done SET run_at = run_at + interval '1 second' WHERE id = :note;
