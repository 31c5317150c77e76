-- queue
SELECT CAST(COALESCE(SUM(pending + `delayed`), 0) AS SIGNED)
FROM relevo_store_tallies
WHERE queue_id = %s
