-- Arrays of ids and of the new values, in the order of `MessageUpdate.values`.
UPDATE relevo_store_messages AS m
SET queue_id = new.queue_id, origin_queue_id = new.origin_queue_id, standing = new.standing, sort_key = new.sort_key,
    visible_at = new.visible_at, claim_until = new.claim_until, claim_no = new.claim_no, claim_token = new.claim_token, claimed_by = new.claimed_by,
    claimed_at = new.claimed_at, attempts = new.attempts, reclaims = new.reclaims, replays = new.replays,
    priority_tier = new.priority_tier, priority_score = new.priority_score, failure_reason = new.failure_reason,
    finished_at = new.finished_at, updated_at = new.updated_at,
    trail = m.trail || new.trail, error = COALESCE(new.error, m.error)
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::integer[],
    $9::text[], $10::text[], $11::bigint[], $12::integer[], $13::integer[], $14::integer[],
    $15::smallint[], $16::smallint[], $17::text[], $18::bigint[], $19::bigint[], $20::text[], $21::text[]
) AS new (
    id, queue_id, origin_queue_id, standing, sort_key, visible_at, claim_until, claim_no,
    claim_token, claimed_by, claimed_at, attempts, reclaims, replays,
    priority_tier, priority_score, failure_reason, finished_at, updated_at, trail, error
)
WHERE m.id = new.id
