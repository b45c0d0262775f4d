-- Why a task does not run. In: id. Out: one row, as orchestrator.explanation() says it.
SELECT e.reason, e.says, e.command FROM orchestrator.explanation(%(id)s) AS e
