-- $1 queue, $2 how many. As lock.
SELECT id, tenant_id, scope_id, queue_id, origin_queue_id, standing, sort_key, visible_at, claim_until,
    claim_no, claim_token, claimed_by, claimed_at, attempts, reclaims, replays, priority_tier, priority_score,
    message_type, correlation_id, deadline_at, expires_at, created_at, finished_at, failure_reason, false
FROM relevo_store_messages
WHERE id = ANY(ARRAY(
    SELECT id FROM (SELECT id FROM relevo_store_ready WHERE queue_id = $1 ORDER BY id LIMIT $2) AS pending
    UNION ALL
    SELECT id FROM (
        SELECT d.id
        FROM relevo_store_due AS d
        JOIN relevo_store_messages AS w ON w.id = d.id
        WHERE d.kind = 'visible' AND w.visible_at IS NOT NULL AND w.queue_id = $1
        ORDER BY d.id
        LIMIT $2
    ) AS delayed
))
ORDER BY id
LIMIT $2
FOR UPDATE SKIP LOCKED
