SELECT 'steps' AS label, count(*) AS number FROM chaos.steps
UNION ALL
SELECT 'steps by hand', count(*) FROM chaos.steps AS s WHERE s.is_hand
UNION ALL
SELECT 'hands refused', count(*) FROM chaos.faults AS f WHERE f.detail LIKE 'refused: %';
SELECT s.task_id, format('was deleted by no hand (%s)', s.purpose) AS what
FROM chaos.steps AS s
WHERE s.new_status IS NULL AND NOT s.is_hand
UNION ALL
SELECT NULL, format('%s: %s', f.kind, f.detail) FROM chaos.faults AS f WHERE f.detail LIKE 'UNEXPECTED%';
