-- Before the text of batch.sql: how it would be run, without running it. Out: one row: the plan, as JSON.
EXPLAIN (FORMAT JSON)
