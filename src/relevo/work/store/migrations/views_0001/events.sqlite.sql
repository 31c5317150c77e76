-- What happened to each message, archived or not: its history, a row a step. A claim under way is told by its lease, until it
-- is written with what ends it, or extends it. Who published it has a column, unless its history begins in another way.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.key + 1 AS place, m.scope_id, m.queue_id, json_extract(e.value, '$[0]') AS at,
    json_extract(e.value, '$[1]') AS event, json_extract(e.value, '$[2]') AS actor, json_extract(e.value, '$[3]') AS detail
FROM (
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_archive
) AS m, json_each('[' || rtrim(
    COALESCE('[' || m.created_at || ',"published",' || json_quote(m.published_by) || ',null],', '') || m.trail, ','
) || ']') AS e
UNION ALL
SELECT
    m.id, json_array_length('[' || rtrim(m.trail, ',') || ']') + 1 + (m.published_by IS NOT NULL), m.scope_id, m.queue_id, c.claimed_at, 'claimed', c.actor, c.claimed_by
FROM (
    SELECT e.value AS held, l.claimed_by, l.actor, l.claimed_at
    FROM relevo_store_leases AS l, json_each(l.held) AS e
) AS c
JOIN relevo_store_messages AS m ON m.id = substr(c.held, 1, 26) AND m.claim_no = CAST('0' || substr(c.held, 27) AS INTEGER)
WHERE m.standing IS NULL AND m.finished_at IS NULL AND m.claim_until IS NULL
