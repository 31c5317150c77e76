-- The first pending rows of a queue in its order, passing over those that another transaction is just taking.
-- /*labels*/ is where each wanted label adds a condition.
-- queue, now, how many
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score,
    m.labels, m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at
FROM relevo_store_messages AS m FORCE INDEX (ix_relevo_messages_order)
WHERE m.queue_id = %s AND m.state = 'pending' AND (m.expires_at IS NULL OR m.expires_at > %s) /*labels*/
ORDER BY m.sort_key, m.id
LIMIT %s
FOR UPDATE SKIP LOCKED
