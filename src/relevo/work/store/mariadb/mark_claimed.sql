-- Claims rows that this transaction holds: token, until, by, now, now, a line of history, ids
UPDATE relevo_store_messages FORCE INDEX (PRIMARY)
SET state = 'claimed', claim_token = %s, claim_until = %s, claimed_by = %s, claimed_at = %s, updated_at = %s,
    attempts = attempts + 1, trail = CONCAT(trail, %s)
WHERE id IN %s
