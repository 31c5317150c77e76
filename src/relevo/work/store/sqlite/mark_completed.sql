-- Completes rows without a result that are claimed for the given time. Each gets the whole of the parts that its claim sent, if
-- there are any. (With RETURNING it would take twice the time.)
-- ?1 token, ?2 claimed by, ?3 claimed at, ?4 the claim's line of history, which an extended one has already,
-- ?5 the completion's, ?6 now, ?7 claim number, ?8 JSON list of ids
UPDATE relevo_store_messages
SET result = (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = relevo_store_messages.id AND part.number = 0 AND part.claim_token = ?1
    ),
    claim_until = NULL, claim_token = ?1, claimed_by = ?2, claimed_at = ?3, attempts = attempts + 1,
    trail = trail || CASE WHEN claim_until IS NULL THEN ?4 ELSE '' END || ?5, finished_at = ?6, updated_at = ?6
WHERE id IN (SELECT value FROM json_each(?8)) AND claim_no = ?7 AND standing IS NULL AND finished_at IS NULL
