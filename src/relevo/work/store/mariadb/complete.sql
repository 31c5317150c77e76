-- Those of the given rows that are claimed, held: ids
SELECT id, queue_id, attempts, claimed_at, message_type, correlation_id, claim_token, scope_id
FROM relevo_store_messages FORCE INDEX (PRIMARY)
WHERE id IN %s AND state = 'claimed'
ORDER BY id
FOR UPDATE
