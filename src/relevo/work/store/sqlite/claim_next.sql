-- The first messages in a queue's order. /*labels*/ is where each wanted label adds a condition.
-- ?1 queue, ?2 how many, ?3 scope
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM relevo_store_ready AS r
CROSS JOIN relevo_store_messages AS m ON m.id = r.id
WHERE r.queue_id = ?1 /*labels*/
ORDER BY r.sort_key, r.id
LIMIT ?2
