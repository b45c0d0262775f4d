-- Who does what in a run: each may what its role may, and no more.
CREATE ROLE chaos_worker LOGIN;
CREATE ROLE chaos_producer LOGIN;
CREATE ROLE chaos_operator LOGIN;
CREATE ROLE chaos_crowd LOGIN;
GRANT orchestrator_worker TO chaos_worker;
GRANT orchestrator_producer TO chaos_producer;
GRANT orchestrator_operator TO chaos_operator;
GRANT USAGE ON SCHEMA chaos TO chaos_worker;
GRANT SELECT, INSERT ON chaos.ledger, chaos.effects TO chaos_worker;
