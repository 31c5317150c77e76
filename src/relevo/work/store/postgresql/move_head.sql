-- $1 the last number, $2 the last hash, $3 the chain
UPDATE relevo_store_audit_chains SET last_no = $1, last_hash = $2 WHERE chain = $3
