-- What happened to each message, archived or not: its history, a row a step.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.place, m.scope_id, m.queue_id, e.at,
    JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[1]')) COLLATE utf8mb4_nopad_bin AS event,
    JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[2]')) COLLATE utf8mb4_nopad_bin AS actor,
    CASE JSON_TYPE(JSON_EXTRACT(e.step, '$[3]')) WHEN 'NULL' THEN NULL ELSE JSON_UNQUOTE(JSON_EXTRACT(e.step, '$[3]')) END
        COLLATE utf8mb4_nopad_bin AS detail
FROM (
    SELECT id, scope_id, queue_id, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, trail FROM relevo_store_archive
) AS m, JSON_TABLE(CONCAT('[', TRIM(TRAILING ',' FROM m.trail), ']'), '$[*]' COLUMNS (
    place FOR ORDINALITY, at BIGINT PATH '$[0]', step JSON PATH '$'
)) AS e
