-- Arrays: queue, day and slot, then the counters in the order of the columns.
INSERT INTO relevo_store_tallies AS t (
    queue_id, day, slot,
    pending, delayed, claimed, in_review, dead, published, published_bytes, claims,
    completed, failed, retried, released, reclaimed, expired, dead_lettered, cancelled,
    replayed, handler_ms, reviews
)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::smallint[],
    $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
    $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[],
    $20::bigint[], $21::bigint[], $22::bigint[]
)
ON CONFLICT (queue_id, day, slot) DO UPDATE SET
    pending = t.pending + excluded.pending, delayed = t.delayed + excluded.delayed, claimed = t.claimed + excluded.claimed,
    in_review = t.in_review + excluded.in_review, dead = t.dead + excluded.dead, published = t.published + excluded.published,
    published_bytes = t.published_bytes + excluded.published_bytes, claims = t.claims + excluded.claims, completed = t.completed + excluded.completed,
    failed = t.failed + excluded.failed, retried = t.retried + excluded.retried, released = t.released + excluded.released,
    reclaimed = t.reclaimed + excluded.reclaimed, expired = t.expired + excluded.expired, dead_lettered = t.dead_lettered + excluded.dead_lettered,
    cancelled = t.cancelled + excluded.cancelled, replayed = t.replayed + excluded.replayed, handler_ms = t.handler_ms + excluded.handler_ms,
    reviews = t.reviews + excluded.reviews
