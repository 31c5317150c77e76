-- Those of the given messages that are ready in this queue.  ?1 queue, ?2 JSON list of ids
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM json_each(?2) AS wanted
CROSS JOIN relevo_store_messages AS m ON m.id = wanted.value
CROSS JOIN relevo_store_ready AS r ON r.queue_id = ?1 AND r.sort_key = m.sort_key AND r.id = m.id
