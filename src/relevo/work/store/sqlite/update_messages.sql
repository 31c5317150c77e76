-- ?1 id, then the new values in the order of `MessageUpdate.values`
UPDATE relevo_store_messages
SET queue_id = ?2, origin_queue_id = ?3, standing = ?4, sort_key = ?5, visible_at = ?6,
    claim_until = ?7, claim_no = ?8, claim_token = ?9, claimed_by = ?10, claimed_at = ?11,
    attempts = ?12, reclaims = ?13, replays = ?14, priority_tier = ?15, priority_score = ?16,
    failure_reason = ?17, finished_at = ?18, updated_at = ?19, trail = trail || ?20,
    error = COALESCE(?21, error)
WHERE id = ?1
