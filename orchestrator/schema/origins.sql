-- Where these tasks are at home. Out: at least one row: whether that is here; the database and since when, once for each
-- place that is on record and is not here.
SELECT orchestrator.at_home(), i.database, i.since
FROM (SELECT) AS always
LEFT JOIN orchestrator.installation AS i ON NOT i.at_home
ORDER BY i.since
