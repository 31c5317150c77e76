-- ?1 tenant, ?2 scope, ?3 queue, ?4 publisher; then of each message: creation, sort key, id, body, key
INSERT INTO relevo_store_messages (
    tenant_id, scope_id, queue_id, published_by, created_at, updated_at, sort_key, id, correlation_id, body, idempotency_key
)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?7, ?8, ?9)
