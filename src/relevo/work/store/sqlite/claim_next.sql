-- The first pending rows of a queue in its order. /*labels*/ is where each wanted label adds a condition.
-- That pending is neither claimed nor completed is said for the planner, who looks for the index's condition word by word.
-- ?1 queue, ?2 how many, ?3 now
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score,
    m.labels, m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at
FROM relevo_store_messages AS m
WHERE m.queue_id = ?1 AND m.state = 'pending' AND m.state NOT IN ('claimed', 'completed')
    AND (m.expires_at IS NULL OR m.expires_at > ?3) /*labels*/
ORDER BY m.sort_key, m.id
LIMIT ?2
