-- As mark_claimed, for one row.
-- ?1 token, ?2 until, ?3 by, ?4 now, ?5 a line of history, ?6 id
UPDATE relevo_store_messages
SET state = 'claimed', claim_token = ?1, claim_until = ?2, claimed_by = ?3, claimed_at = ?4, updated_at = ?4,
    attempts = attempts + 1, trail = trail || ?5
WHERE id = ?6
