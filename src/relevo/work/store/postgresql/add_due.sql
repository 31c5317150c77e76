-- Arrays of kinds, times and messages.
INSERT INTO relevo_store_due (kind, at, id)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])
ON CONFLICT DO NOTHING
