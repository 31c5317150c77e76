-- Many rows that this transaction holds, each with its result or none, as mark_completed.
-- result, token, the claim's line of history, the completion's, token, claimed by, claimed at, now, now, id
UPDATE relevo_store_messages
SET result = COALESCE(%s, (
        SELECT body FROM relevo_store_chunks AS part
        WHERE part.message_id = relevo_store_messages.id AND part.number = 0 AND part.claim_token = %s
    )),
    trail = CONCAT(trail, IF(claim_until IS NULL, %s, ''), %s),
    claim_until = NULL, claim_token = %s, claimed_by = %s, claimed_at = %s, attempts = attempts + 1, finished_at = %s, updated_at = %s
WHERE id = %s
