-- What happened to each message, archived or not: its history, a row a step. A claim under way is told by its lease, until it
-- is written with what ends it, or extends it. Who published it has a column, unless its history begins in another way.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.place, m.scope_id, m.queue_id, e.at,
    JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[1]')) COLLATE utf8mb4_nopad_bin AS event,
    JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[2]')) COLLATE utf8mb4_nopad_bin AS actor,
    CASE JSON_TYPE(JSON_EXTRACT(e.step, '$[3]')) WHEN 'NULL' THEN NULL ELSE JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[3]')) END
        COLLATE utf8mb4_nopad_bin AS detail
FROM (
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, created_at, published_by, trail FROM relevo_store_archive
) AS m, JSON_TABLE(CONCAT('[', TRIM(TRAILING ',' FROM CONCAT(
    COALESCE(CONCAT('[', m.created_at, ',"published",', JSON_QUOTE(m.published_by), ',null],'), ''), m.trail
)), ']'), '$[*]' COLUMNS (
    place FOR ORDINALITY, at BIGINT PATH '$[0]', step JSON PATH '$'
)) AS e
UNION ALL
SELECT
    m.id, JSON_LENGTH(CONCAT('[', TRIM(TRAILING ',' FROM m.trail), ']')) + 1 + (m.published_by IS NOT NULL), m.scope_id, m.queue_id, c.claimed_at, 'claimed' COLLATE utf8mb4_nopad_bin, c.actor, c.claimed_by
FROM (
    SELECT DISTINCT e.held, l.claimed_by, l.actor, l.claimed_at
    FROM relevo_store_leases AS l, JSON_TABLE(l.held, '$[*]' COLUMNS (
        held VARCHAR(40) CHARACTER SET ascii COLLATE ascii_nopad_bin PATH '$'
    )) AS e
) AS c
JOIN relevo_store_messages AS m ON m.id = SUBSTR(c.held, 1, 26) AND m.claim_no = CAST(CONCAT('0', SUBSTR(c.held, 27)) AS SIGNED)
WHERE m.standing IS NULL AND m.finished_at IS NULL AND m.claim_until IS NULL
