-- Completes rows without a result that were just found claimed in this transaction. Each gets the whole of the parts that its
-- claim sent, if there are any. (An UPDATE with RETURNING takes twice the time of this and one SELECT for all.)
-- ?1 JSON list of ids, ?2 now, ?3 a line of history
UPDATE relevo_store_messages
SET state = 'completed',
    result = (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = relevo_store_messages.id AND part.number = 0 AND part.claim_token = relevo_store_messages.claim_token
    ),
    claim_until = NULL, finished_at = ?2, updated_at = ?2, trail = trail || ?3
WHERE id IN (SELECT value FROM json_each(?1))
