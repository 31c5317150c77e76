-- ?1 JSON list of tokens
DELETE FROM relevo_store_leases WHERE token IN (SELECT value FROM json_each(?1))
