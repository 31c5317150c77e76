-- Claims those of the given rows that are still pending in this queue and that no other transaction is just taking.
-- The additions to queue_id and state keep the planner on the primary key: it knows little of a queue that has just grown.
-- $1 queue, $2 ids, arrays of $3 tokens, $4 untils, $5 bys, $6 now, $7 lines of history
-- The rows are chosen in a part of their own: within the join PostgreSQL may choose anew for each row it updates, and takes too many.
WITH taken AS MATERIALIZED (
    SELECT row.id, row.updated_at AS pending_since, wanted.token, wanted.until, wanted.by, wanted.line
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $7::text[]) AS wanted (id, token, until, by, line)
    JOIN relevo_store_messages AS row ON row.id = wanted.id
    WHERE row.queue_id + 0 = $1 AND row.state || '' = 'pending'
        AND (row.expires_at IS NULL OR row.expires_at > $6)
    FOR UPDATE OF row SKIP LOCKED
)
UPDATE relevo_store_messages AS m
SET state = 'claimed', claim_token = taken.token, claim_until = taken.until, claimed_by = taken.by, claimed_at = $6,
    updated_at = $6, attempts = m.attempts + 1, trail = m.trail || taken.line
FROM taken
WHERE m.id = taken.id
RETURNING m.sort_key, m.id, m.attempts, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, taken.pending_since
