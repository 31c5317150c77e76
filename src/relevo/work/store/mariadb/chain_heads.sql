-- The youngest chains of the audit, in the order of their names.
SELECT chain, last_no, last_hash
FROM (SELECT chain, last_no, last_hash FROM relevo_store_audit_chains ORDER BY chain DESC LIMIT %s) AS youngest
ORDER BY chain
