-- Where each chain of the audit ends, and up to where it was cut.
CREATE VIEW relevo_audit_chains AS
SELECT c.chain, c.last_no, c.last_hash, c.cut_no, c.cut_hash
FROM relevo_store_audit_chains AS c
