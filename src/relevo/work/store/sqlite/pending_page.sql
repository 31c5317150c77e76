-- ?1 queue, ?2 sort key, ?3 id, ?4 how many
SELECT sort_key, id
FROM relevo_store_ready
WHERE queue_id = ?1 AND (sort_key, id) > (?2, ?3)
ORDER BY sort_key, id
LIMIT ?4
