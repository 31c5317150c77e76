-- What is known of keys: arrays of queues and keys.
SELECT k.queue_id, k.idempotency_key, k.message_id, COALESCE(m.body, a.body), COALESCE(m.body_digest, a.body_digest),
    m.id IS NOT NULL, m.standing, m.finished_at, m.visible_at, r.id IS NOT NULL
FROM unnest($1::bigint[], $2::text[]) AS wanted (queue_id, idempotency_key)
JOIN relevo_store_keys AS k USING (queue_id, idempotency_key)
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
LEFT JOIN relevo_store_archive AS a ON a.id = k.message_id
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
