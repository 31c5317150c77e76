-- Those of the given rows that are still pending in this queue. The plus signs keep the planner on the primary key.
-- ?1 queue, ?2 JSON list of ids, ?3 now
SELECT sort_key, id, attempts + 1, reclaims, message_type, priority_tier, priority_score, labels, content_type, body,
    correlation_id, causation_id, parent_id, deadline_at, created_at, updated_at
FROM relevo_store_messages
WHERE id IN (SELECT value FROM json_each(?2)) AND +queue_id = ?1 AND +state = 'pending'
    AND (expires_at IS NULL OR +expires_at > ?3)
