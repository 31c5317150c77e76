-- Many rows: queue, day and slot, then the counters in the order of the columns.
INSERT INTO relevo_store_tallies (
    queue_id, day, slot,
    pending, `delayed`, claimed, in_review, dead, published, published_bytes, claims,
    completed, failed, retried, released, reclaimed, expired, dead_lettered, cancelled,
    replayed, handler_ms, reviews
)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    pending = pending + VALUES(pending), `delayed` = `delayed` + VALUES(`delayed`),
    claimed = claimed + VALUES(claimed), in_review = in_review + VALUES(in_review),
    dead = dead + VALUES(dead), published = published + VALUES(published),
    published_bytes = published_bytes + VALUES(published_bytes), claims = claims + VALUES(claims),
    completed = completed + VALUES(completed), failed = failed + VALUES(failed),
    retried = retried + VALUES(retried), released = released + VALUES(released),
    reclaimed = reclaimed + VALUES(reclaimed), expired = expired + VALUES(expired),
    dead_lettered = dead_lettered + VALUES(dead_lettered), cancelled = cancelled + VALUES(cancelled),
    replayed = replayed + VALUES(replayed), handler_ms = handler_ms + VALUES(handler_ms),
    reviews = reviews + VALUES(reviews)
