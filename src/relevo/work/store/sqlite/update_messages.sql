-- ?1 id, then the new values in the order of `MessageUpdate.values`
UPDATE relevo_store_messages
SET queue_id = ?2, origin_queue_id = ?3, state = ?4, sort_key = ?5, visible_at = ?6,
    claim_until = ?7, claim_token = ?8, claimed_by = ?9, claimed_at = ?10,
    attempts = ?11, reclaims = ?12, replays = ?13, priority_tier = ?14, priority_score = ?15,
    failure_reason = ?16, finished_at = ?17, updated_at = ?18, trail = trail || ?19,
    error = COALESCE(?20, error)
WHERE id = ?1
