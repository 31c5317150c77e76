-- As publish_messages.sql.
INSERT INTO relevo_store_ready (queue_id, sort_key, id)
SELECT $3::bigint, place, id
FROM unnest($6::bigint[], $7::text[]) AS new (place, id)
