-- Completes one message, if it is claimed with this token.
-- ?1 id, ?2 token, ?3 scope, ?4 queue or NULL, ?5 result, ?6 now, ?7 a line of history
UPDATE relevo_messages
SET state = 'completed', result = ?5, claim_until = NULL, finished_at = ?6, updated_at = ?6, trail = trail || ?7
WHERE id = ?1 AND claim_token = ?2 AND scope_id = ?3 AND queue_id = COALESCE(?4, queue_id) AND state = 'claimed'
RETURNING id, queue_id, attempts, claimed_at, message_type, correlation_id
