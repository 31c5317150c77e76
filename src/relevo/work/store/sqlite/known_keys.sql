-- What is known of keys: ?1 JSON list of [queue, key]
SELECT k.queue_id, k.idempotency_key, k.message_id, k.body_digest, m.state
FROM json_each(?1) AS wanted
JOIN relevo_store_idempotency AS k
    ON k.queue_id = wanted.value ->> 0 AND k.idempotency_key = wanted.value ->> 1
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
