-- What happened to each message, archived or not: its history, a row a step.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.key + 1 AS place, m.scope_id, m.queue_id, json_extract(e.value, '$[0]') AS at,
    json_extract(e.value, '$[1]') AS event, json_extract(e.value, '$[2]') AS actor, json_extract(e.value, '$[3]') AS detail
FROM (
    SELECT id, scope_id, queue_id, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, trail FROM relevo_store_archive
) AS m, json_each('[' || rtrim(m.trail, ',') || ']') AS e
