-- Notes in these new messages how many deliveries they have.  queue, queue, ids as JSON
UPDATE relevo_store_messages
SET open_deliveries = (SELECT count(*) FROM relevo_store_subscriptions WHERE queue_id = ?)
WHERE queue_id = ? AND id IN (SELECT value FROM json_each(?))
