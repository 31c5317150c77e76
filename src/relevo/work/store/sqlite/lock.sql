-- ?1 JSON list of ids
SELECT m.id, m.tenant_id, m.scope_id, m.queue_id, m.origin_queue_id, m.standing, m.sort_key, m.visible_at, m.claim_until,
    m.claim_no, m.claim_token, m.claimed_by, m.claimed_at, m.attempts, m.reclaims, m.replays, m.priority_tier, m.priority_score,
    m.message_type, m.correlation_id, m.deadline_at, m.expires_at, m.created_at, m.finished_at, m.failure_reason, r.id IS NOT NULL
FROM relevo_store_messages AS m
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
WHERE m.id IN (SELECT value FROM json_each(?1))
ORDER BY m.id
