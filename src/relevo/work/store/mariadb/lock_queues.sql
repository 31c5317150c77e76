-- queues
SELECT id FROM relevo_store_queues WHERE id IN %s ORDER BY id FOR UPDATE
