-- messages
DELETE FROM relevo_store_idempotency WHERE message_id IN %s
