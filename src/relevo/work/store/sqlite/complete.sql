-- Those of the given rows that are claimed. The plus sign keeps the planner on the primary key.
-- ?1 JSON list of ids
SELECT id, queue_id, attempts, claimed_at, message_type, correlation_id, claim_token, scope_id
FROM relevo_store_messages
WHERE id IN (SELECT value FROM json_each(?1)) AND +state = 'claimed'
