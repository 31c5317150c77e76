-- turn_clock.lua: moves a queue's time forward, for tests: what waits for a time is that much closer to it.
-- KEYS delayed, lanes:later, repeat, then keys that expire
-- ARGV ms, tag, number of schedules, then for each: key, score it was read with, next score ('': it ends), number of fires,
--      then for each fire: score, member
-- -> number fired. A schedule that has changed meanwhile is left alone.
for at = 1, 2 do
  for _, member in ipairs(redis.call('ZRANGE', KEYS[at], 0, -1)) do
    redis.call('ZINCRBY', KEYS[at], '-' .. ARGV[1], member)
  end
end
for at = 4, #KEYS do
  local left = redis.call('PTTL', KEYS[at])
  if left >= 0 and left <= tonumber(ARGV[1]) then
    redis.call('DEL', KEYS[at])
  elseif left >= 0 then
    redis.call('PEXPIRE', KEYS[at], left - tonumber(ARGV[1]))
  end
end
local at, fired = 4, 0
for _ = 1, tonumber(ARGV[3]) do
  local key, read, following, fires = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 4
  local score = redis.call('ZSCORE', KEYS[3], key)
  if score and tonumber(score) == tonumber(read) then
    for fire = 0, fires - 1 do
      redis.call('ZADD', KEYS[1], ARGV[at + 2 * fire], ARGV[at + 2 * fire + 1])
    end
    local spec = ARGV[2] .. ':repeat:spec:' .. key
    if following == '' then
      redis.call('ZREM', KEYS[3], key)
      redis.call('DEL', spec)
    else
      redis.call('ZADD', KEYS[3], following, key)
      if fires > 0 then redis.call('HINCRBY', spec, 'fired', fires) end
    end
    fired = fired + fires
  end
  at = at + 2 * fires
end
return fired
