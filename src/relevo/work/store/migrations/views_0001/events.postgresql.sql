-- What happened to each message, archived or not: its history, a row a step.
CREATE VIEW relevo_events AS
SELECT
    m.id AS message_id, e.place, m.scope_id, m.queue_id, CAST(e.step ->> 0 AS BIGINT) AS at,
    (e.step ->> 1) COLLATE "C" AS event, (e.step ->> 2) COLLATE "C" AS actor, (e.step ->> 3) COLLATE "C" AS detail
FROM (
    SELECT id, scope_id, queue_id, trail FROM relevo_store_messages
    UNION ALL
    SELECT id, scope_id, queue_id, trail FROM relevo_store_archive
) AS m, json_array_elements(CAST('[' || rtrim(m.trail, ',') || ']' AS json)) WITH ORDINALITY AS e (step, place)
