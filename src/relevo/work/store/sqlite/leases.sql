-- ?1 JSON list of tokens
SELECT token, scope_id, queue_id, claimed_by, actor, claimed_at, until, held
FROM relevo_store_leases
WHERE token IN (SELECT value FROM json_each(?1))
