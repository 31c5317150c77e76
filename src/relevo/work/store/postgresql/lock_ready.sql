-- Arrays of $1 queues, $2 sort keys and $3 ids -> the ids of those that are ready, held there.
SELECT r.id
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS wanted (queue_id, sort_key, id)
JOIN relevo_store_ready AS r USING (queue_id, sort_key, id)
FOR UPDATE OF r
