-- Those of the given places that are in the order of a queue, held: a JSON list of [sort key, id], the queue, how many.
-- (Rows of values behind an IN are looked for by reading all of the table.)
SELECT STRAIGHT_JOIN r.sort_key, r.id
FROM JSON_TABLE(%s, '$[*]' COLUMNS (
    sort_key BIGINT PATH '$[0]', id CHAR(26) CHARACTER SET ascii COLLATE ascii_nopad_bin PATH '$[1]'
)) AS wanted
JOIN relevo_store_ready AS r FORCE INDEX (PRIMARY) ON r.queue_id = %s AND r.sort_key = wanted.sort_key AND r.id = wanted.id
LIMIT %s
FOR UPDATE SKIP LOCKED
