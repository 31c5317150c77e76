-- ?1 JSON list of queues
SELECT q.id, q.slug, q.ordering, q.consumer_mode, q.visibility_timeout_s, q.max_retries, q.backoff_initial_ms,
    q.backoff_multiplier, q.backoff_cap_ms, q.backoff_jitter_ms, d.id
FROM relevo_store_queues AS q
JOIN relevo_store_queues AS d ON d.scope_id = q.scope_id AND d.slug = '_dead_letter'
WHERE q.id IN (SELECT value FROM json_each(?1))
