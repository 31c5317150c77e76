-- Reviews, without what is asked and answered in them: that is the API's.
CREATE VIEW relevo_reviews AS
SELECT
    r.id, t.slug AS tenant, s.slug AS scope, q.slug AS queue, r.tenant_id, r.scope_id, r.queue_id, r.message_id, r.source,
    r.correlation_id, r.title, r.state, r.holder, r.created_at, r.updated_at, r.finished_at
FROM relevo_store_reviews AS r
LEFT JOIN relevo_store_tenants AS t ON t.id = r.tenant_id
LEFT JOIN relevo_store_scopes AS s ON s.id = r.scope_id
LEFT JOIN relevo_store_queues AS q ON q.id = r.queue_id
