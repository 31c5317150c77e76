-- How many messages carry a label, as far as it matters.  $1 scope, $2 name, $3 value, $4 at most
SELECT count(*)
FROM (SELECT FROM relevo_store_labels WHERE scope_id = $1 AND name = $2 AND value = $3 LIMIT $4) AS carried
