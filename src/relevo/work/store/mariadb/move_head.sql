-- last_no, last_hash, chain
UPDATE relevo_store_audit_chains SET last_no = %s, last_hash = %s WHERE chain = %s
