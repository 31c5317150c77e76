-- As publish_messages.sql. In the order of the keys, so that two transactions never wait for each other.
INSERT INTO relevo_store_keys (queue_id, idempotency_key, message_id)
SELECT $3::bigint, key, id
FROM unnest($9::text[], $7::text[]) AS new (key, id)
WHERE key IS NOT NULL
ORDER BY key COLLATE "C"
