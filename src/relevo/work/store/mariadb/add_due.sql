-- Many rows of kind, time and message.
INSERT INTO relevo_store_due (kind, at, id) VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE id = id
