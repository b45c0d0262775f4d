-- The INSERT of a producer in any language. In: type, payload. The triggers complete the row and wake the workers.
INSERT INTO orchestrator.tasks (type, payload) VALUES (%(type)s, %(payload)s::jsonb)
