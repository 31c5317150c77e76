-- Messages that are not archived, each with its state, with who has claimed it, and with the names of its tenant, its scope and its
-- queues.
CREATE VIEW relevo_messages AS
SELECT
    m.id, t.slug AS tenant, s.slug AS scope, q.slug AS queue, o.slug AS origin_queue, m.tenant_id, m.scope_id, m.queue_id,
    m.origin_queue_id,
    CASE
        WHEN m.standing IS NOT NULL THEN m.standing WHEN m.finished_at IS NOT NULL THEN 'completed'
        WHEN m.visible_at IS NOT NULL THEN 'delayed' WHEN r.id IS NOT NULL THEN 'pending' ELSE 'claimed'
    END AS state,
    m.message_type,
    CASE m.priority_tier WHEN 0 THEN 'background' WHEN 1 THEN 'low' WHEN 2 THEN 'normal' WHEN 3 THEN 'high' ELSE 'critical' END
        AS priority_tier,
    m.priority_score, m.labels, m.content_type, m.body, m.result, m.failure_reason, m.error,
    m.attempts + CASE WHEN m.standing IS NULL AND m.finished_at IS NULL AND m.visible_at IS NULL AND r.id IS NULL THEN 1 ELSE 0 END AS attempts,
    m.reclaims, m.replays, m.idempotency_key, m.correlation_id, m.causation_id, m.parent_id, m.source_type, m.source_id,
    COALESCE(c.claimed_by, m.claimed_by) AS claimed_by, COALESCE(c.claimed_at, m.claimed_at) AS claimed_at,
    COALESCE(m.claim_until, c.until) AS claim_until, m.visible_at, m.expires_at, m.deadline_at, m.hitl_spec, m.created_at,
    MAX(m.updated_at, COALESCE(c.claimed_at, 0)) AS updated_at, m.finished_at
FROM relevo_store_messages AS m
LEFT JOIN relevo_store_ready AS r ON r.queue_id = m.queue_id AND r.sort_key = m.sort_key AND r.id = m.id
LEFT JOIN (
    SELECT e.value AS held, l.claimed_by, l.actor, l.claimed_at, l.until
    FROM relevo_store_leases AS l, json_each(l.held) AS e
) AS c ON m.standing IS NULL AND m.finished_at IS NULL AND m.visible_at IS NULL AND r.id IS NULL
    AND c.held = (m.id || CASE m.claim_no WHEN 0 THEN '' ELSE CAST(m.claim_no AS TEXT) END)
LEFT JOIN relevo_store_tenants AS t ON t.id = m.tenant_id
LEFT JOIN relevo_store_scopes AS s ON s.id = m.scope_id
LEFT JOIN relevo_store_queues AS q ON q.id = m.queue_id
LEFT JOIN relevo_store_queues AS o ON o.id = m.origin_queue_id
