-- Arrays of queues, keys, messages and digests -> the messages whose keys are new.
INSERT INTO relevo_store_idempotency (queue_id, idempotency_key, message_id, body_digest)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
ON CONFLICT DO NOTHING
RETURNING message_id
