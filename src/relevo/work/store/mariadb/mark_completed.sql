-- Completes rows that this transaction holds: now, now, a line of history, ids
UPDATE relevo_store_messages FORCE INDEX (PRIMARY)
SET state = 'completed', claim_until = NULL, finished_at = %s, updated_at = %s, trail = CONCAT(trail, %s)
    /*results*/
WHERE id IN %s
