-- ?1 queue; then of each message: sort key, id
INSERT INTO relevo_store_ready (queue_id, sort_key, id)
VALUES (?1, ?2, ?3)
