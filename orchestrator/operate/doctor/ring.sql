-- Send one notification. In: word: what it carries.
SELECT pg_notify('orchestrator_doctor', %(word)s)
