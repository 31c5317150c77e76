-- What is known of keys: ?1 JSON list of [queue, key]
SELECT k.queue_id, k.idempotency_key, k.message_id, COALESCE(m.body, a.body), COALESCE(m.body_digest, a.body_digest),
    m.id IS NOT NULL, m.standing, m.finished_at, m.visible_at, r.id IS NOT NULL
FROM json_each(?1) AS wanted
JOIN relevo_store_keys AS k
    ON k.queue_id = wanted.value ->> 0 AND k.idempotency_key = wanted.value ->> 1
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
LEFT JOIN relevo_store_archive AS a ON a.id = k.message_id
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
