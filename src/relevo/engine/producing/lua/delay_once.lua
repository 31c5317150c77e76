-- delay_once.lua: delays a job whose id the caller chose, unless that id was added within the window.
-- KEYS once, delayed, member of the id   ARGV window s, run_at_ms, member   -> 1 delayed, 0 seen before
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before the id is used up
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[1])
local tag = string.sub(KEYS[2], 1, -string.len(':delayed') - 1)
redis.call('ZREM', tag .. ':cancelled', string.sub(KEYS[1], #tag + string.len(':dlid:') + 1)) -- meant for a job before this one
return 1
