-- Claims the first pending rows of a queue in its order, passing over those that another transaction is just taking.
-- /*labels*/ is where each wanted label adds a condition.
-- $1 queue, $2 how many, $3 token, $4 until, $5 by, $6 now, $7 a line of history
-- The rows are chosen in a part of their own: within the join PostgreSQL may choose anew for each row it updates, and takes too many.
WITH taken AS MATERIALIZED (
    SELECT m.id, m.updated_at AS pending_since
    FROM relevo_store_messages AS m
    WHERE m.queue_id = $1 AND m.state = 'pending' AND (m.expires_at IS NULL OR m.expires_at > $6) /*labels*/
    ORDER BY m.sort_key, m.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE relevo_store_messages AS m
SET state = 'claimed', claim_token = $3, claim_until = $4, claimed_by = $5, claimed_at = $6, updated_at = $6,
    attempts = m.attempts + 1, trail = m.trail || $7
FROM taken
WHERE m.id = taken.id
RETURNING m.sort_key, m.id, m.attempts, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, taken.pending_since
