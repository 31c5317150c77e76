-- Claims those of the given rows that are still pending in this queue and that no other transaction is just taking.
-- $1 queue, $2 ids, $3 token, $4 until, $5 by, $6 now, $7 a line of history
UPDATE relevo_messages AS m
SET state = 'claimed', claim_token = $3, claim_until = $4, claimed_by = $5, claimed_at = $6, updated_at = $6,
    attempts = m.attempts + 1, trail = m.trail || $7
FROM (
    SELECT id, updated_at AS pending_since
    FROM relevo_messages
    WHERE id = ANY($2::text[]) AND queue_id = $1 AND state = 'pending'
    FOR UPDATE SKIP LOCKED
) AS these
WHERE m.id = these.id
RETURNING m.sort_key, m.id, m.attempts, m.reclaims, m.message_type, m.priority_tier, m.priority_score,
    m.labels, m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, these.pending_since
