-- What is known of keys: arrays of queues and keys.
SELECT k.queue_id, k.idempotency_key, k.message_id, k.body_digest, m.state
FROM unnest($1::bigint[], $2::text[]) AS wanted (queue_id, idempotency_key)
JOIN relevo_store_idempotency AS k USING (queue_id, idempotency_key)
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
