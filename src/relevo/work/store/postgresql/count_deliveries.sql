-- Notes in these new messages how many deliveries they have.  queue, queue, ids as JSON
UPDATE relevo_store_messages
SET open_deliveries = (SELECT count(*) FROM relevo_store_subscriptions WHERE queue_id = $1)
WHERE queue_id = $2 AND id = ANY (ARRAY(SELECT json_array_elements_text($3::text::json)))
