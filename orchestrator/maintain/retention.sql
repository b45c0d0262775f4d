-- Delete at most `batch_size` rows of one kind that are past their retention. Out: how many.
-- The functions run as the owner and can delete only rows that are due: a worker may not DELETE from these tables.
-- Locks and paths: theirs.
SELECT CASE %(kind)s
    WHEN 'dead_letters' THEN orchestrator.purge_dead_letters(%(batch_size)s)
    WHEN 'attempts' THEN orchestrator.purge_attempts(%(batch_size)s)
    WHEN 'audit' THEN orchestrator.purge_audit(%(batch_size)s)
    WHEN 'keys' THEN orchestrator.purge_keys(%(batch_size)s)
    WHEN 'workers' THEN orchestrator.purge_workers(%(batch_size)s)
    WHEN 'statistics' THEN orchestrator.purge_statistics(%(batch_size)s)
END
