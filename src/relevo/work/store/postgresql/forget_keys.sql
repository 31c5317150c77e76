-- $1 messages
DELETE FROM relevo_store_idempotency WHERE message_id = ANY($1::text[])
