-- As mark_completed, of one row, with its result or none.
-- ?1 to ?7 as there, ?8 id, ?9 result
UPDATE relevo_store_messages
SET result = COALESCE(?9, (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = ?8 AND part.number = 0 AND part.claim_token = ?1
    )),
    claim_until = NULL, claim_token = ?1, claimed_by = ?2, claimed_at = ?3, attempts = attempts + 1,
    trail = trail || CASE WHEN claim_until IS NULL THEN ?4 ELSE '' END || ?5, finished_at = ?6, updated_at = ?6
WHERE id = ?8 AND claim_no = ?7 AND standing IS NULL AND finished_at IS NULL
