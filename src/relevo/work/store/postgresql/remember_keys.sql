-- Arrays of queues, keys and messages -> the messages whose keys are new.
INSERT INTO relevo_store_keys (queue_id, idempotency_key, message_id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
ON CONFLICT DO NOTHING
RETURNING message_id
