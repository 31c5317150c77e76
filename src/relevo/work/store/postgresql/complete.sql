-- Completes messages that are still claimed as their leases say. Without a result one gets the whole of the parts its claim sent.
-- Arrays of $1 ids, $2 claim numbers, $3 tokens, $4 claimed by, $5 claimed at, $6 the claims' lines of history, which
-- extended ones have already, $7 the completions', $8 results; $9 now
UPDATE relevo_store_messages AS m
SET result = COALESCE(item.result, (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = item.id AND part.number = 0 AND part.claim_token = item.token
    )),
    claim_until = NULL, claim_token = item.token, claimed_by = item.claimed_by, claimed_at = item.claimed_at,
    attempts = m.attempts + 1, trail = m.trail || CASE WHEN m.claim_until IS NULL THEN item.claim_line ELSE '' END || item.trail,
    finished_at = $9, updated_at = $9
FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[])
    AS item (id, claim_no, token, claimed_by, claimed_at, claim_line, trail, result)
WHERE m.id = item.id AND m.claim_no = item.claim_no AND m.standing IS NULL AND m.finished_at IS NULL
RETURNING m.id, m.queue_id, m.attempts, m.claimed_at, m.message_type, m.correlation_id
