-- What is known of keys: pairs of queue and key. READ COMMITTED, so that what another transaction has just committed is seen.
SELECT k.queue_id, k.idempotency_key, k.message_id, COALESCE(m.body, a.body), COALESCE(m.body_digest, a.body_digest),
    m.id IS NOT NULL, m.standing, m.finished_at, m.visible_at, r.id IS NOT NULL
FROM relevo_store_keys AS k
LEFT JOIN relevo_store_messages AS m ON m.id = k.message_id
LEFT JOIN relevo_store_archive AS a ON a.id = k.message_id
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
WHERE (k.queue_id, k.idempotency_key) IN %s
