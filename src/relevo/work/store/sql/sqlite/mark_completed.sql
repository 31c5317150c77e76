-- Completes one row that was just found claimed in this transaction. Without a result it gets the whole of the parts that its
-- claim sent. (An UPDATE with RETURNING for each takes twice the time of this and one SELECT for all.)
-- ?1 id, ?2 token, ?3 result, ?4 now, ?5 a line of history
UPDATE relevo_messages
SET state = 'completed',
    result = COALESCE(?3, (SELECT body FROM relevo_chunks WHERE message_id = ?1 AND number = 0 AND claim_token = ?2)),
    claim_until = NULL, finished_at = ?4, updated_at = ?4, trail = trail || ?5
WHERE id = ?1
