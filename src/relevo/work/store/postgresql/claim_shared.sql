-- As claim_next, for several claims at once: the n-th row is claimed by the n-th of the claims.
-- $1 queue, $2 how many, arrays of $3 tokens, $4 untils, $5 bys, $6 now, $7 lines of history
-- The rows are chosen in a part of their own: within the join PostgreSQL may choose anew for each row it updates, and takes too many.
WITH taken AS MATERIALIZED (
    SELECT id, pending_since, row_number() OVER (ORDER BY sort_key, id) AS place
    FROM (
        SELECT id, sort_key, updated_at AS pending_since
        FROM relevo_store_messages
        WHERE queue_id = $1 AND state = 'pending' AND (expires_at IS NULL OR expires_at > $6)
        ORDER BY sort_key, id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS held
)
UPDATE relevo_store_messages AS m
SET state = 'claimed', claim_token = ($3::text[])[taken.place], claim_until = ($4::bigint[])[taken.place],
    claimed_by = ($5::text[])[taken.place], claimed_at = $6, updated_at = $6, attempts = m.attempts + 1,
    trail = m.trail || ($7::text[])[taken.place]
FROM taken
WHERE m.id = taken.id
RETURNING m.sort_key, m.id, m.attempts, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, taken.pending_since
