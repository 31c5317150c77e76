-- As mark_completed, of one row with its result.
-- ?1 token, ?2 claimed by, ?3 claimed at, ?4 lines of history, ?5 now, ?6 id, ?7 result
UPDATE relevo_store_messages
SET result = ?7, claim_until = NULL, claim_token = ?1, claimed_by = ?2, claimed_at = ?3, attempts = attempts + 1,
    trail = trail || ?4, finished_at = ?5, updated_at = ?5
WHERE id = ?6
