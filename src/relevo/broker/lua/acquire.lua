-- acquire.lua: asks for leave to start jobs: tokens of the queue's rate, places of its concurrency.
-- KEYS limiter, places   ARGV rate (0: none), per ms, at once (0: none), ms a place is held, entry ids...
-- -> {how many of them may start, ms to wait when none may}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local granted, wait = #ARGV - 4, 0
local at_once = tonumber(ARGV[3])
if at_once > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) -- places of workers that died
  granted = math.min(granted, at_once - redis.call('ZCARD', KEYS[2]))
  if granted <= 0 then return {0, 50} end
end
local rate, ms = tonumber(ARGV[1]), tonumber(ARGV[2])
if rate > 0 then
  local kept = redis.call('HMGET', KEYS[1], 't', 'ts')
  local tokens, since = tonumber(kept[1] or rate), tonumber(kept[2] or now)
  tokens = math.min(rate, tokens + math.max(0, now - since) * rate / ms)
  granted = math.min(granted, math.floor(tokens))
  if granted == 0 then wait = math.max(1, math.ceil((1 - tokens) * ms / rate)) end
  redis.call('HSET', KEYS[1], 't', tostring(tokens - granted), 'ts', now)
  redis.call('PEXPIRE', KEYS[1], 2 * ms)
end
if at_once > 0 then
  for at = 5, 4 + granted do redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[at]) end
end
return {granted, wait}
