-- ?1 JSON list of [queue, key]
DELETE FROM relevo_store_keys
WHERE (queue_id, idempotency_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
