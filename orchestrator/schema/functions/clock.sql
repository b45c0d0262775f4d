-- All time is the database's, through this one function, so that a test can replace it in its own database.
-- STABLE, because a VOLATILE clock turns the claim's index scan into a sequential one; statement_timestamp(),
-- because a body of the same volatility is inlined. Its meaning: when the client's statement arrived.
-- Inlined, it is read with the search_path of who asks: so it says whose statement_timestamp() it means.
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.statement_timestamp() $$;
