-- $1 token, $2 time
UPDATE relevo_store_leases SET look_at = $2 WHERE token = $1 AND look_at > $2
