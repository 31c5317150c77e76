-- debounce.lua: delays a job and drops the one it replaces, if that has not run yet: only the last of a burst runs.
-- KEYS delayed, dedup   ARGV run_at_ms, member, ms to remember   -> 1 replaced an earlier one, 0 the first
local before = redis.call('GET', KEYS[2])
local replaced = before and redis.call('ZREM', KEYS[1], before) or 0
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return replaced
