-- Goes before the text of batch.sql: plans it without running it. Out: one row: the plan, as JSON.
EXPLAIN (FORMAT JSON)
