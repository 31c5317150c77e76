-- hold_lock.lua: takes a free lock or renews our own.   KEYS lock   ARGV holder, ttl s   -> 1 ours, 0 another's
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
