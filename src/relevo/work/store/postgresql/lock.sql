-- $1 ids. Whether one is ready is asked afterwards: what another transaction has changed while this waited is seen by then.
SELECT id, tenant_id, scope_id, queue_id, origin_queue_id, standing, sort_key, visible_at, claim_until,
    claim_no, claim_token, claimed_by, claimed_at, attempts, reclaims, replays, priority_tier, priority_score,
    message_type, correlation_id, deadline_at, expires_at, created_at, finished_at, failure_reason, false
FROM relevo_store_messages
WHERE id = ANY($1::text[])
ORDER BY id
FOR UPDATE
