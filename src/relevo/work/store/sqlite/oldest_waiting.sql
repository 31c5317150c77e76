-- ?1 queue, ?2 how many
SELECT m.id, m.tenant_id, m.scope_id, m.queue_id, m.origin_queue_id, m.standing, m.sort_key, m.visible_at, m.claim_until,
    m.claim_no, m.claim_token, m.claimed_by, m.claimed_at, m.attempts, m.reclaims, m.replays, m.priority_tier, m.priority_score,
    m.message_type, m.correlation_id, m.deadline_at, m.expires_at, m.created_at, m.finished_at, m.failure_reason, r.id IS NOT NULL
FROM relevo_store_messages AS m
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
WHERE m.id IN (
    SELECT id FROM (SELECT id FROM relevo_store_ready WHERE queue_id = ?1 ORDER BY id LIMIT ?2)
    UNION ALL
    SELECT id FROM (
        SELECT d.id
        FROM relevo_store_due AS d
        JOIN relevo_store_messages AS w ON w.id = d.id
        WHERE d.kind = 'visible' AND w.visible_at IS NOT NULL AND w.queue_id = ?1
        ORDER BY d.id
        LIMIT ?2
    )
)
ORDER BY m.id
LIMIT ?2
