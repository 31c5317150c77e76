-- Completes rows without a result that are claimed for the given time. Each gets the whole of the parts that its claim sent, if
-- there are any. An extended one has its claim's line of history already; it is asked first, for MariaDB assigns one after the
-- other.
-- claimed by, claimed at, token, the claim's line, the completion's, token, now, now, ids, claim number; what differs from row to
-- row is chosen by its id (`_chosen`)
UPDATE relevo_store_messages FORCE INDEX (PRIMARY)
SET claimed_by = {}, claimed_at = {},
    result = (
        SELECT body FROM relevo_store_chunks AS part
        WHERE part.message_id = relevo_store_messages.id AND part.number = 0 AND part.claim_token = {}
    ),
    trail = CONCAT(trail, IF(claim_until IS NULL, {}, ''), {}),
    claim_until = NULL, claim_token = {}, attempts = attempts + 1, finished_at = {}, updated_at = {}
WHERE id IN {} AND claim_no = {} AND standing IS NULL AND finished_at IS NULL
