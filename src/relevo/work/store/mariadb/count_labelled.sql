-- How many messages carry a label, as far as it matters: scope, name, value, at most
SELECT count(*) FROM (SELECT 1 FROM relevo_store_labels WHERE scope_id = %s AND name = %s AND value = %s LIMIT %s) AS carried
