-- Many rows of queue, key and message; a key that is known stays what it is (INSERT IGNORE would have its warnings
-- fetched and logged, with the keys in them).
INSERT INTO relevo_store_keys (queue_id, idempotency_key, message_id)
VALUES (%s, %s, %s)
ON DUPLICATE KEY UPDATE message_id = message_id
