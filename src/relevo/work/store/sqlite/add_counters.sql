-- Queue, day and slot, then the counters in the order of the columns.
INSERT INTO relevo_store_tallies (
    queue_id, day, slot,
    pending, delayed, claimed, in_review, dead, published, published_bytes, claims,
    completed, failed, retried, released, reclaimed, expired, dead_lettered, cancelled,
    replayed, handler_ms, reviews
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue_id, day, slot) DO UPDATE SET
    pending = pending + excluded.pending, delayed = delayed + excluded.delayed, claimed = claimed + excluded.claimed,
    in_review = in_review + excluded.in_review, dead = dead + excluded.dead, published = published + excluded.published,
    published_bytes = published_bytes + excluded.published_bytes, claims = claims + excluded.claims, completed = completed + excluded.completed,
    failed = failed + excluded.failed, retried = retried + excluded.retried, released = released + excluded.released,
    reclaimed = reclaimed + excluded.reclaimed, expired = expired + excluded.expired, dead_lettered = dead_lettered + excluded.dead_lettered,
    cancelled = cancelled + excluded.cancelled, replayed = replayed + excluded.replayed, handler_ms = handler_ms + excluded.handler_ms,
    reviews = reviews + excluded.reviews
