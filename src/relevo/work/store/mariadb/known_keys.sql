-- What is known of keys: pairs of queue and key. READ COMMITTED, so that what another transaction has just committed is seen.
SELECT k.queue_id, k.idempotency_key, k.message_id, k.body_digest, m.state
FROM relevo_store_idempotency AS k
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
WHERE (k.queue_id, k.idempotency_key) IN %s
