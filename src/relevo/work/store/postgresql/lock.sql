-- $1 ids
SELECT id, tenant_id, scope_id, queue_id, origin_queue_id, state, sort_key, visible_at, claim_until, claim_token, claimed_by,
    claimed_at, attempts, reclaims, replays, priority_tier, priority_score, message_type, correlation_id, deadline_at,
    created_at, finished_at, failure_reason
FROM relevo_store_messages
WHERE id = ANY($1::text[])
ORDER BY id
FOR UPDATE
