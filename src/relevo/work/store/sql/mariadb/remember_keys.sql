-- Many rows of queue, key, message and digest; those whose key is known are left out.
INSERT IGNORE INTO relevo_idempotency (queue_id, idempotency_key, message_id, body_digest)
VALUES (%s, %s, %s, %s)
