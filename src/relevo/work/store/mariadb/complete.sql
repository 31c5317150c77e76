-- Those of the given rows that are not over, held: ids
SELECT id, queue_id, attempts + 1, message_type, correlation_id, claim_no
FROM relevo_store_messages FORCE INDEX (PRIMARY)
WHERE id IN %s AND standing IS NULL AND finished_at IS NULL
ORDER BY id
FOR UPDATE
