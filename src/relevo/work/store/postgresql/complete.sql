-- Completes messages that are still claimed as their leases say. Without a result one gets the whole of the parts its claim sent.
-- Arrays of $1 ids, $2 results and $3 the lease of each, by its place in the arrays of $4 claim numbers, $5 tokens, $6 claimed
-- by, $7 claimed at, $8 the claims' lines of history, which extended ones have already, $9 the completions'; $10 now
UPDATE relevo_store_messages AS m
SET result = COALESCE(item.result, (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = item.id AND part.number = 0 AND part.claim_token = ($5::text[])[item.lease]
    )),
    claim_until = NULL, claim_token = ($5::text[])[item.lease], claimed_by = ($6::text[])[item.lease],
    claimed_at = ($7::bigint[])[item.lease], attempts = m.attempts + 1,
    trail = m.trail || CASE WHEN m.claim_until IS NULL THEN ($8::text[])[item.lease] ELSE '' END || ($9::text[])[item.lease],
    finished_at = $10, updated_at = $10
FROM unnest($1::text[], $2::text[], $3::smallint[]) AS item (id, result, lease)
WHERE m.id = item.id AND m.claim_no = ($4::integer[])[item.lease] AND m.standing IS NULL AND m.finished_at IS NULL
RETURNING 1
