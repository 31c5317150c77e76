-- The audit: who changed what. A chain's entries are numbered without a gap, and each has the hash of all before it.
CREATE VIEW relevo_audit AS
SELECT
    a.id, t.slug AS tenant, s.slug AS scope, q.slug AS queue, a.tenant_id, a.scope_id, a.queue_id, a.at, a.actor, a.action,
    a.target, a.request_id, a.correlation_id, a.before, a.after, a.chain, a.chain_no, a.hash
FROM relevo_store_audit AS a
LEFT JOIN relevo_store_tenants AS t ON t.id = a.tenant_id
LEFT JOIN relevo_store_scopes AS s ON s.id = a.scope_id
LEFT JOIN relevo_store_queues AS q ON q.id = a.queue_id
