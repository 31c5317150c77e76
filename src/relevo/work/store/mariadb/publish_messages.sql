-- Of each message tenant, scope, queue, publisher, creation twice, sort key, id twice, body and key.
INSERT INTO relevo_store_messages (
    tenant_id, scope_id, queue_id, published_by, created_at, updated_at, sort_key, id, correlation_id, body, idempotency_key
)
VALUES {}
