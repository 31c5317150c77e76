-- Completes the messages that are claimed with their tokens. Without a result one gets the whole of the parts its claim sent.
-- $1 ids, $2 tokens, $3 scopes, $4 queues or NULLs, $5 results, $6 now, $7 a line of history
UPDATE relevo_store_messages AS m
SET state = 'completed',
    result = COALESCE(item.result, (
        SELECT part.body FROM relevo_store_chunks AS part
        WHERE part.message_id = item.id AND part.number = 0 AND part.claim_token = item.token
    )),
    claim_until = NULL, finished_at = $6, updated_at = $6, trail = m.trail || $7
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) AS item (id, token, scope_id, queue_id, result)
WHERE m.id = item.id AND m.claim_token = item.token AND m.scope_id = item.scope_id
    AND m.queue_id = COALESCE(item.queue_id, m.queue_id) AND m.state = 'claimed'
RETURNING m.id, m.queue_id, m.attempts, m.claimed_at, m.message_type, m.correlation_id
