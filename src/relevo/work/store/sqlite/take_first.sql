-- Takes all up to a place out of the order of a queue.  ?1 queue, ?2 sort key, ?3 id
DELETE FROM relevo_store_ready WHERE queue_id = ?1 AND (sort_key, id) <= (?2, ?3)
