-- queues
SELECT id FROM relevo_queues WHERE id IN %s ORDER BY id FOR UPDATE
