-- What happened in each queue on each day, UTC. A day is a number: days since 1970.
CREATE VIEW relevo_usage AS
SELECT
    u.queue_id, u.day, CAST(SUM(u.published) AS BIGINT) AS published,
    CAST(SUM(u.published_bytes) AS BIGINT) AS published_bytes, CAST(SUM(u.claims) AS BIGINT) AS claims,
    CAST(SUM(u.completed) AS BIGINT) AS completed, CAST(SUM(u.failed) AS BIGINT) AS failed,
    CAST(SUM(u.retried) AS BIGINT) AS retried, CAST(SUM(u.released) AS BIGINT) AS released,
    CAST(SUM(u.reclaimed) AS BIGINT) AS reclaimed, CAST(SUM(u.expired) AS BIGINT) AS expired,
    CAST(SUM(u.dead_lettered) AS BIGINT) AS dead_lettered, CAST(SUM(u.cancelled) AS BIGINT) AS cancelled,
    CAST(SUM(u.replayed) AS BIGINT) AS replayed, CAST(SUM(u.reviews) AS BIGINT) AS reviews,
    CAST(SUM(u.handler_ms) AS BIGINT) AS handler_ms
FROM relevo_store_tallies AS u
GROUP BY u.queue_id, u.day
