-- Out: one row: our roles that this server lacks; the statement that creates them.
SELECT array_agg(r.name ORDER BY r.name), string_agg(format('CREATE ROLE %%I NOLOGIN;', r.name), E'\n' ORDER BY r.name)
FROM unnest(ARRAY['orchestrator_operator', 'orchestrator_producer', 'orchestrator_reader', 'orchestrator_worker']) AS r (name)
WHERE to_regrole(r.name) IS NULL
