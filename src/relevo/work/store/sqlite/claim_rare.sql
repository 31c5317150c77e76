-- As claim_next with labels, from the messages that carry the first of them: they are few.
-- ?1 queue, ?2 how many, ?3 scope, ?4 name, ?5 value
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM relevo_store_labels AS n
CROSS JOIN relevo_store_messages AS m ON m.id = n.message_id
CROSS JOIN relevo_store_ready AS r ON r.queue_id = ?1 AND r.sort_key = m.sort_key AND r.id = m.id
WHERE n.scope_id = ?3 AND n.name = ?4 AND n.value = ?5 /*labels*/
ORDER BY r.sort_key, r.id
LIMIT ?2
