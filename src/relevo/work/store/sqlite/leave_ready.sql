-- ?1 queue, ?2 sort key, ?3 id
DELETE FROM relevo_store_ready WHERE queue_id = ?1 AND sort_key = ?2 AND id = ?3
