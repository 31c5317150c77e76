-- Those of the given rows that are still pending in this queue and that no other transaction is just taking.
-- ids, queue, now
SELECT sort_key, id, attempts + 1, reclaims, message_type, priority_tier, priority_score, labels, content_type, body,
    correlation_id, causation_id, parent_id, deadline_at, created_at, updated_at
FROM relevo_store_messages FORCE INDEX (PRIMARY)
WHERE id IN %s AND queue_id = %s AND state = 'pending' AND (expires_at IS NULL OR expires_at > %s)
FOR UPDATE SKIP LOCKED
