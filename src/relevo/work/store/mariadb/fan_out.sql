-- Makes a delivery of each of these new messages for each subscription of their queue.  queue, ids as JSON
INSERT INTO relevo_store_deliveries
    (subscription_id, message_id, state, sort_key, visible_at, attempts, reclaims, updated_at)
SELECT s.id, m.id, CASE WHEN m.visible_at IS NULL THEN 'pending' ELSE 'delayed' END, m.sort_key, m.visible_at, 0, 0, m.updated_at
FROM (SELECT id FROM relevo_store_subscriptions WHERE queue_id = %s) s
CROSS JOIN JSON_TABLE(%s, '$[*]' COLUMNS (id CHAR(26) CHARACTER SET ascii COLLATE ascii_nopad_bin PATH '$')) wanted
JOIN relevo_store_messages m ON m.id = wanted.id
