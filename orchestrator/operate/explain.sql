-- Explain why a task does not run. In: id. Out: one row, that of orchestrator.explanation().
SELECT e.reason, e.says, e.command FROM orchestrator.explanation(%(id)s) AS e
