-- Completes rows without a result that this transaction holds. Each gets the whole of the parts that its claim sent, if there
-- are any. An extended one has its claim's line of history already; it is asked first, for MariaDB assigns one after the other.
-- token, the claim's line, the completion's, token, claimed by, claimed at, now, now, ids
UPDATE relevo_store_messages FORCE INDEX (PRIMARY)
SET result = (
        SELECT body FROM relevo_store_chunks AS part
        WHERE part.message_id = relevo_store_messages.id AND part.number = 0 AND part.claim_token = %s
    ),
    trail = CONCAT(trail, IF(claim_until IS NULL, %s, ''), %s),
    claim_until = NULL, claim_token = %s, claimed_by = %s, claimed_at = %s, attempts = attempts + 1, finished_at = %s, updated_at = %s
WHERE id IN %s
