-- Completes one row that was just found claimed in this transaction.  ?1 id, ?2 result, ?3 now, ?4 a line of history
UPDATE relevo_store_messages
SET state = 'completed', result = ?2, claim_until = NULL, finished_at = ?3, updated_at = ?3, trail = trail || ?4
WHERE id = ?1
