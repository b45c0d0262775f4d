-- Let tasks run in a copied database. In: reason. Out: one row, that of orchestrator.resume_after_restore().
SELECT r.claimed, r.running, r.workers FROM orchestrator.resume_after_restore(%(reason)s) AS r
