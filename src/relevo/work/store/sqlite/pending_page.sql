-- What state is not is said for the planner, see claim_next.
-- ?1 queue, ?2 sort key, ?3 id, ?4 how many
SELECT sort_key, id
FROM relevo_store_messages
WHERE queue_id = ?1 AND state = 'pending' AND state NOT IN ('claimed', 'completed') AND (sort_key, id) > (?2, ?3)
ORDER BY sort_key, id
LIMIT ?4
