-- Arrays of queues and keys.
DELETE FROM relevo_store_keys AS k
USING unnest($1::bigint[], $2::text[]) AS forgotten (queue_id, idempotency_key)
WHERE k.queue_id = forgotten.queue_id AND k.idempotency_key = forgotten.idempotency_key
