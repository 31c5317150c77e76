-- Many rows that this transaction holds, each with its claim: token, until, by, now, now, a line of history, id
UPDATE relevo_store_messages
SET state = 'claimed', claim_token = %s, claim_until = %s, claimed_by = %s, claimed_at = %s, updated_at = %s,
    attempts = attempts + 1, trail = CONCAT(trail, %s)
WHERE id = %s
