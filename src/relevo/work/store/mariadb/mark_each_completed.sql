-- Many rows, each with its result, as mark_completed.
-- result, the claim's line of history, the completion's, token, claimed by, claimed at, now, now, id, claim number
UPDATE relevo_store_messages
SET result = %s, trail = CONCAT(trail, IF(claim_until IS NULL, %s, ''), %s),
    claim_until = NULL, claim_token = %s, claimed_by = %s, claimed_at = %s, attempts = attempts + 1, finished_at = %s, updated_at = %s
WHERE id = %s AND claim_no = %s AND standing IS NULL AND finished_at IS NULL
