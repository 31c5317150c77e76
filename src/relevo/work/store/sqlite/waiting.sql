-- ?1 queue
SELECT COALESCE(SUM(pending + delayed), 0)
FROM relevo_store_tallies
WHERE queue_id = ?1
