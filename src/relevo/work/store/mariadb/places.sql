-- Where these messages of a queue are in its order: ids, queue
SELECT sort_key, id FROM relevo_store_messages FORCE INDEX (PRIMARY) WHERE id IN %s AND queue_id = %s
