-- What happened to each message, archived or not: its history, a row a step. A claim under way is told by its lease, until it
-- is written with what ends it, or extends it. Who published it has a column, unless its history begins in another way.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.place, m.scope_id, m.queue_id, CAST(e.step ->> 0 AS BIGINT) AS at,
    (e.step ->> 1) COLLATE "C" AS event, (e.step ->> 2) COLLATE "C" AS actor, (e.step ->> 3) COLLATE "C" AS detail
FROM (
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_archive
) AS m, json_array_elements(CAST('[' || rtrim(
    COALESCE('[' || m.created_at || ',"published",' || to_json(m.published_by) || ',null],', '') || m.trail, ','
) || ']' AS json)) WITH ORDINALITY AS e (step, place)
UNION ALL
SELECT
    m.id, json_array_length(CAST('[' || rtrim(m.trail, ',') || ']' AS json)) + 1 + CAST(m.published_by IS NOT NULL AS INTEGER), m.scope_id, m.queue_id, c.claimed_at, 'claimed' COLLATE "C", c.actor, c.claimed_by
FROM (
    SELECT e.held COLLATE "C" AS held, l.claimed_by, l.actor, l.claimed_at
    FROM relevo_store_leases AS l, json_array_elements_text(CAST(l.held AS json)) AS e (held)
) AS c
JOIN relevo_store_messages AS m ON m.id = substr(c.held, 1, 26) AND m.claim_no = CAST('0' || substr(c.held, 27) AS INTEGER)
WHERE m.standing IS NULL AND m.finished_at IS NULL AND m.claim_until IS NULL
