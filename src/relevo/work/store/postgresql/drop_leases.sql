-- $1 tokens
DELETE FROM relevo_store_leases WHERE token = ANY($1::text[])
