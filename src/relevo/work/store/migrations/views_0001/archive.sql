-- Archived messages, as relevo_messages shows those that are not.
CREATE VIEW relevo_archive AS
SELECT
    m.id, t.slug AS tenant, s.slug AS scope, q.slug AS queue, o.slug AS origin_queue, m.tenant_id, m.scope_id, m.queue_id,
    m.origin_queue_id, m.state, m.message_type,
    CASE m.priority_tier WHEN 0 THEN 'background' WHEN 1 THEN 'low' WHEN 2 THEN 'normal' WHEN 3 THEN 'high' ELSE 'critical' END
        COLLATE "C" AS priority_tier,
    m.priority_score, m.labels, m.content_type, m.body, m.result, m.failure_reason, m.error, m.attempts, m.reclaims,
    m.replays, m.idempotency_key, m.correlation_id, m.causation_id, m.parent_id, m.source_type, m.source_id,
    m.claimed_by, m.claimed_at, m.claim_until, m.visible_at, m.expires_at, m.deadline_at, m.hitl_spec,
    m.created_at, m.updated_at, m.finished_at, m.archived_at
FROM relevo_store_archive AS m
LEFT JOIN relevo_store_tenants AS t ON t.id = m.tenant_id
LEFT JOIN relevo_store_scopes AS s ON s.id = m.scope_id
LEFT JOIN relevo_store_queues AS q ON q.id = m.queue_id
LEFT JOIN relevo_store_queues AS o ON o.id = m.origin_queue_id
