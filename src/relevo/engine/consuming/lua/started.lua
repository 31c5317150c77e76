-- started.lua: tells that jobs with leave from acquire.lua have started by now, and how many of them: the others' leave is free.
-- KEYS starts   ARGV what acquire.lua said, how many started   -> 1, or 0 when the leave is no longer known
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local id, granted = string.match(ARGV[1], '^(.*):(%d+)$')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + 1 -- rounded up: a start counts no shorter than it should
if ARGV[2] ~= '0' then
  while redis.call('ZADD', KEYS[1], 'NX', now, id .. ':' .. ARGV[2]) == 0 do id = id .. '+' end
end
redis.call('ZINCRBY', KEYS[1], ARGV[2] - granted, 'total')
return 1
