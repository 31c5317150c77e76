-- Makes a delivery of each of these new messages for each subscription of their queue.  queue, ids as JSON
INSERT INTO relevo_store_deliveries
    (subscription_id, message_id, state, sort_key, visible_at, attempts, reclaims, updated_at)
SELECT s.id, m.id, CASE WHEN m.visible_at IS NULL THEN 'pending' ELSE 'delayed' END, m.sort_key, m.visible_at, 0, 0, m.updated_at
FROM relevo_store_messages m
JOIN relevo_store_subscriptions s ON s.queue_id = m.queue_id
WHERE s.queue_id = ? AND m.id IN (SELECT value FROM json_each(?))
