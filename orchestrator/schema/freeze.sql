-- name: unchecked
-- They call each other, so their bodies are checked when they are first run.
SET LOCAL check_function_bodies = off

-- name: patient
-- All later statements of other sessions would wait behind a long wait for a lock.
SET LOCAL lock_timeout = '2s'
