-- pairs of queue and key
DELETE FROM relevo_store_keys WHERE (queue_id, idempotency_key) IN %s
