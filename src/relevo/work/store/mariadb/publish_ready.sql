-- Of each message queue, sort key and id.
INSERT INTO relevo_store_ready (queue_id, sort_key, id) VALUES {}
