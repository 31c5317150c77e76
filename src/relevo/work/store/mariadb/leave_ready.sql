-- Many places: queue, sort key, id
DELETE FROM relevo_store_ready WHERE queue_id = %s AND sort_key = %s AND id = %s
