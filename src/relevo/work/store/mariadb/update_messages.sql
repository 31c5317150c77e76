-- The new values of one row in the order of `MessageUpdate.values`, its id last.
UPDATE relevo_store_messages
SET queue_id = %s, origin_queue_id = %s, standing = %s, sort_key = %s, visible_at = %s, claim_until = %s,
    claim_no = %s, claim_token = %s, claimed_by = %s, claimed_at = %s, attempts = %s, reclaims = %s, replays = %s,
    priority_tier = %s, priority_score = %s, failure_reason = %s, finished_at = %s, updated_at = %s,
    trail = CONCAT(trail, %s), error = COALESCE(%s, error)
WHERE id = %s
