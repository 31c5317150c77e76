-- ?1 JSON list of messages
DELETE FROM relevo_store_idempotency WHERE message_id IN (SELECT value FROM json_each(?1))
