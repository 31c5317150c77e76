-- keep_declared.lua: marks the schedules that a worker's code declares as seen now, and ends those that no worker's code has
-- declared for a while.
-- KEYS declared, repeat, paused   ARGV ms after which one is forgotten, prefix of the spec keys, then keys of schedules
-- -> {{keys of those that are not there}, {keys of those that were ended}}
-- Seen by whichever version of the code: while an old one still runs, what only it declares stays.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local missing = {}
for at = 3, #ARGV do
  local key = ARGV[at]
  if redis.call('ZSCORE', KEYS[2], key) or redis.call('ZSCORE', KEYS[3], key) then
    redis.call('ZADD', KEYS[1], 'XX', now, key)
  else
    missing[#missing + 1] = key
  end
end
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]))
for _, key in ipairs(gone) do
  redis.call('ZREM', KEYS[1], key)
  redis.call('ZREM', KEYS[2], key)
  redis.call('ZREM', KEYS[3], key)
  redis.call('DEL', ARGV[2] .. key)
end
return {missing, gone}
