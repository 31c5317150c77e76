-- Takes the first messages of a queue out of its order: queue, how many. MariaDB's DELETE passes over nothing: of two
-- transactions that claim from one queue one waits for the other.
DELETE FROM relevo_store_ready WHERE queue_id = %s ORDER BY sort_key, id LIMIT %s RETURNING sort_key, id
