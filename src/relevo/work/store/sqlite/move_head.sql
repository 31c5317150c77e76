-- last_no, last_hash, chain
UPDATE relevo_store_audit_chains SET last_no = ?1, last_hash = ?2 WHERE chain = ?3
