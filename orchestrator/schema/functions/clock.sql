-- All SQL reads the database's time through this one function, so that a test can replace it in its own database.
-- STABLE: a VOLATILE clock turns the claim's index scan into a sequential one. statement_timestamp(): PostgreSQL
-- inlines a body of the same volatility. It returns the time when the client's statement arrived.
-- The inlined body is resolved with the caller's search_path, so it qualifies statement_timestamp().
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.statement_timestamp() $$;
