-- As claim_labelled, from the messages that carry the first label: they are few. Not held yet.
-- queue, scope, name, value, scope and label of each condition, how many
SELECT STRAIGHT_JOIN r.sort_key, r.id
FROM relevo_store_labels AS n FORCE INDEX (PRIMARY)
JOIN relevo_store_messages AS m FORCE INDEX (PRIMARY) ON m.id = n.message_id
JOIN relevo_store_ready AS r FORCE INDEX (PRIMARY) ON r.queue_id = %s AND r.sort_key = m.sort_key AND r.id = m.id
WHERE n.scope_id = %s AND n.name = %s AND n.value = %s /*labels*/
ORDER BY r.sort_key, r.id
LIMIT %s
