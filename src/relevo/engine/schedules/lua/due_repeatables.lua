-- due_repeatables.lua: the schedules that are due by the server's clock, for the scheduler that holds the lock.
-- KEYS lock, repeat   ARGV holder, limit, prefix of the spec keys
-- -> {now ms, ms until the next is due or -1, {{key, score, spec bytes, fired}...}}, or {-1} when the lock is not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = {}
local found = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for at = 1, #found, 2 do
  local values = redis.call('HMGET', ARGV[3] .. found[at], 'spec', 'fired')
  due[#due + 1] = {found[at], found[at + 1], values[1] or '', values[2] or '0'}
end
local later = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local wait = -1
if later[2] then wait = math.ceil(tonumber(later[2]) - now) end
return {now, wait, due}
