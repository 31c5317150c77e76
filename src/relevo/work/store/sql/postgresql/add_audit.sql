-- Arrays of the columns of audit rows, all but the id; then last_no and last_hash of their chain. One round trip for both.
WITH head AS (
    UPDATE relevo_audit_chains SET last_no = $15, last_hash = $16 WHERE chain = $17
)
INSERT INTO relevo_audit (
    tenant_id, scope_id, queue_id, at, actor, action, target, request_id, correlation_id, before, after, chain, chain_no, hash
)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[]
)
