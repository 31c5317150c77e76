-- The oldest messages of a queue that wait, pending or delayed: queue, how many, queue, how many
(SELECT id FROM relevo_store_ready WHERE queue_id = %s ORDER BY id LIMIT %s)
UNION ALL
(
    SELECT d.id
    FROM relevo_store_due AS d
    JOIN relevo_store_messages AS w ON w.id = d.id
    WHERE d.kind = 'visible' AND w.visible_at IS NOT NULL AND w.queue_id = %s
    ORDER BY d.id
    LIMIT %s
)
