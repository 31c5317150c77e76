-- Of each message queue, key and id; in the order of the keys, so that two transactions never wait for each other.
INSERT INTO relevo_store_keys (queue_id, idempotency_key, message_id) VALUES {}
