-- Queues, and how many messages are in each, by state. What is over is counted by relevo_usage.
CREATE VIEW relevo_queues AS
SELECT
    q.id, t.slug AS tenant, s.slug AS scope, q.slug AS queue, q.tenant_id, q.scope_id, q.display_name, q.state, q.ordering,
    q.consumer_mode, q.max_depth, COALESCE(d.pending_count, 0) AS pending_count,
    COALESCE(d.delayed_count, 0) AS delayed_count, COALESCE(d.claimed_count, 0) AS claimed_count,
    COALESCE(d.in_review_count, 0) AS in_review_count, COALESCE(d.dead_count, 0) AS dead_count, q.created_at, q.updated_at
FROM relevo_store_queues AS q
JOIN relevo_store_tenants AS t ON t.id = q.tenant_id
JOIN relevo_store_scopes AS s ON s.id = q.scope_id
LEFT JOIN (
    SELECT
        c.queue_id, CAST(SUM(c.pending) AS BIGINT) AS pending_count, CAST(SUM(c.delayed) AS BIGINT) AS delayed_count,
        CAST(SUM(c.claimed) AS BIGINT) AS claimed_count, CAST(SUM(c.in_review) AS BIGINT) AS in_review_count,
        CAST(SUM(c.dead) AS BIGINT) AS dead_count
    FROM relevo_store_tallies AS c
    GROUP BY c.queue_id
) AS d ON d.queue_id = q.id
