-- $1 queues
SELECT id FROM relevo_store_queues WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE
