-- messages
DELETE FROM relevo_idempotency WHERE message_id IN %s
