-- queue, sort key, sort key, id, how many
SELECT sort_key, id
FROM relevo_store_ready
WHERE queue_id = %s AND sort_key >= %s AND (sort_key > %s OR id > %s)
ORDER BY sort_key, id
LIMIT %s
