-- What a producer in any language would say. In: type, payload. Its triggers complete the row, and ring.
INSERT INTO orchestrator.tasks (type, payload) VALUES (%(type)s, %(payload)s::jsonb)
