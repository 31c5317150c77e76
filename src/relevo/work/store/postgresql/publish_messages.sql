-- $1 tenant, $2 scope, $3 queue, $4 publisher; arrays of creations, sort keys, ids, bodies and keys
INSERT INTO relevo_store_messages (
    tenant_id, scope_id, queue_id, published_by, created_at, updated_at, sort_key, id, correlation_id, body, idempotency_key
)
SELECT $1::bigint, $2::bigint, $3::bigint, $4::text, at, at, place, id, id, body, key
FROM unnest($5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[]) AS new (at, place, id, body, key)
