-- time, token, time
UPDATE relevo_store_leases SET look_at = %s WHERE token = %s AND look_at > %s
