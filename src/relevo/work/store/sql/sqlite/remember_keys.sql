-- ?1 queue, ?2 key, ?3 message, ?4 digest
INSERT OR IGNORE INTO relevo_idempotency (queue_id, idempotency_key, message_id, body_digest)
VALUES (?1, ?2, ?3, ?4)
