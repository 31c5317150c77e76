-- ?1 queue; then of each message: key, id
INSERT INTO relevo_store_keys (queue_id, idempotency_key, message_id)
VALUES (?1, ?2, ?3)
