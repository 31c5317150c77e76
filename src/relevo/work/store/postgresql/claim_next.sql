-- Takes the first messages of a queue out of its order, passing over those that another transaction is just taking.
-- /*labels*/ is where each wanted label adds a condition.
-- $1 queue, $2 how many, $3 scope
-- They are chosen in a part of their own: within a join PostgreSQL may choose anew for each row, and takes too many.
WITH taken AS MATERIALIZED (
    SELECT r.ctid
    FROM relevo_store_ready AS r
    WHERE r.queue_id = $1 /*labels*/
    ORDER BY r.sort_key, r.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM relevo_store_ready WHERE ctid = ANY(ARRAY(SELECT ctid FROM taken)) RETURNING id
)
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM relevo_store_messages AS m
WHERE m.id = ANY(ARRAY(SELECT id FROM gone))
