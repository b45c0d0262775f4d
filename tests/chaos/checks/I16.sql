SELECT 'steps' AS label, count(*) AS number FROM chaos.steps
UNION ALL
SELECT 'manual steps', count(*) FROM chaos.steps AS s WHERE s.is_manual
UNION ALL
SELECT 'manual changes refused', count(*) FROM chaos.faults AS f WHERE f.detail LIKE 'refused: %';
SELECT s.task_id, format('was deleted, but not manually (%s)', s.purpose) AS what
FROM chaos.steps AS s
WHERE s.new_status IS NULL AND NOT s.is_manual
UNION ALL
SELECT NULL, format('%s: %s', f.kind, f.detail) FROM chaos.faults AS f WHERE f.detail LIKE 'UNEXPECTED%';
