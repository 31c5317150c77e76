-- Notes in these new messages how many deliveries they have.  queue, queue, ids as JSON
UPDATE relevo_store_messages m
JOIN (SELECT count(*) AS number FROM relevo_store_subscriptions WHERE queue_id = %s) counted ON m.queue_id = %s
JOIN JSON_TABLE(%s, '$[*]' COLUMNS (id CHAR(26) CHARACTER SET ascii COLLATE ascii_nopad_bin PATH '$')) wanted ON wanted.id = m.id
SET m.open_deliveries = counted.number
