-- The first messages in a queue's order that carry labels, held. /*labels*/ is where each of them adds a condition.
-- queue, scope and label of each condition, how many
SELECT r.sort_key, r.id
FROM relevo_store_ready AS r FORCE INDEX (PRIMARY)
WHERE r.queue_id = %s /*labels*/
ORDER BY r.sort_key, r.id
LIMIT %s
FOR UPDATE SKIP LOCKED
