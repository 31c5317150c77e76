-- As claim_next with labels, from the messages that carry the first of them: they are fewer than 2,000, which was counted. The
-- planner knows only how many carry some label, and would read the whole table if it were not told so.
-- $1 queue, $2 how many, $3 scope, $4 name, $5 value
WITH named AS MATERIALIZED (
    SELECT m.sort_key, m.id
    FROM relevo_store_messages AS m
    WHERE m.id = ANY(ARRAY(
        SELECT l.message_id
        FROM relevo_store_labels AS l
        WHERE l.scope_id = $3 AND l.name = $4 AND l.value = $5
        ORDER BY l.message_id
        LIMIT 2000
    ))
), taken AS MATERIALIZED (
    SELECT r.ctid
    FROM named
    JOIN relevo_store_ready AS r ON r.queue_id = $1 AND r.sort_key = named.sort_key AND r.id = named.id
    WHERE true /*labels*/
    ORDER BY r.sort_key, r.id
    LIMIT $2
    FOR UPDATE OF r SKIP LOCKED
), gone AS (
    DELETE FROM relevo_store_ready WHERE ctid = ANY(ARRAY(SELECT ctid FROM taken)) RETURNING id
)
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM relevo_store_messages AS m
WHERE m.id = ANY(ARRAY(SELECT id FROM gone))
