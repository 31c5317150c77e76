-- As mark_completed, of one row with its result.
-- ?1 token, ?2 claimed by, ?3 claimed at, ?4 and ?5 lines of history, ?6 now, ?7 id, ?8 result
UPDATE relevo_store_messages
SET result = ?8, claim_until = NULL, claim_token = ?1, claimed_by = ?2, claimed_at = ?3, attempts = attempts + 1,
    trail = trail || CASE WHEN claim_until IS NULL THEN ?4 ELSE '' END || ?5, finished_at = ?6, updated_at = ?6
WHERE id = ?7
