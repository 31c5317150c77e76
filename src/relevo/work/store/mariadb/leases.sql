-- tokens
SELECT token, scope_id, queue_id, claimed_by, actor, claimed_at, until, held
FROM relevo_store_leases
WHERE token IN %s
