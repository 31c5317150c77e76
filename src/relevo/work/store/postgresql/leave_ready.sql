-- Arrays of queues, sort keys and ids.
DELETE FROM relevo_store_ready AS r
USING unnest($1::bigint[], $2::bigint[], $3::text[]) AS gone (queue_id, sort_key, id)
WHERE r.queue_id = gone.queue_id AND r.sort_key = gone.sort_key AND r.id = gone.id
