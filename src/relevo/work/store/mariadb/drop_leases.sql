-- tokens
DELETE FROM relevo_store_leases WHERE token IN %s
