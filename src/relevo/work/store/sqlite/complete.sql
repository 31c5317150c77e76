-- Those of the given rows that are not over.  ?1 JSON list of ids
SELECT id, queue_id, attempts + 1, message_type, correlation_id, claim_no
FROM relevo_store_messages
WHERE id IN (SELECT value FROM json_each(?1)) AND standing IS NULL AND finished_at IS NULL
