-- What a worker gets: ids
SELECT m.sort_key, m.id, m.attempts + 1, m.reclaims, m.message_type, m.priority_tier, m.priority_score, m.labels,
    m.content_type, m.body, m.correlation_id, m.causation_id, m.parent_id, m.deadline_at, m.created_at, m.updated_at, m.claim_no,
    m.expires_at
FROM relevo_store_messages AS m FORCE INDEX (PRIMARY)
WHERE m.id IN %s
