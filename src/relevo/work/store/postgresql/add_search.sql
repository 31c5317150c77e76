-- $1 scopes, $2 attributes, $3 messages; what is there already stays
INSERT INTO relevo_store_search (scope_id, attribute, id)
SELECT * FROM unnest(CAST($1 AS bigint[]), CAST($2 AS bigint[]), CAST($3 AS text[]))
ON CONFLICT DO NOTHING
