--!cap
-- fire_repeatable.lua: makes the jobs of due fires of one schedule and moves it to the next, if nobody else has meanwhile.
-- KEYS lock, repeat, spec, stream, delayed
-- ARGV holder, key, score it was read with, next score ('': it ends), limit (0: none), stream cap,
--      1 when the producers' cap counts instead, then for each fire: fire_at_ms, member (as in the delayed set)
-- -> number fired, or -1 when the lock or the schedule has changed hands (nothing was done)
-- The score is the gate: a fire is made once, however many schedulers there are. A full stream sends its fires through the
-- delayed set, where they wait for room.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local score = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not score or tonumber(score) ~= tonumber(ARGV[3]) then return -1 end
local limit = tonumber(ARGV[5])
local fired = tonumber(redis.call('HGET', KEYS[3], 'fired') or '0')
local length = redis.call('XLEN', KEYS[4])
local cap = stream_cap(string.sub(KEYS[4], 1, -string.len(':stream') - 1), ARGV[6], ARGV[7])
local count = 0
for at = 8, #ARGV, 2 do
  if limit > 0 and fired >= limit then break end
  local member = ARGV[at + 1]
  if length >= cap then
    redis.call('ZADD', KEYS[5], ARGV[at], member)
  else
    local a, b, c, d = string.byte(member, 1, 4)
    local size = a + b * 256 + c * 65536 + d * 16777216
    if size == 0 then
      redis.call('XADD', KEYS[4], '*', 'd', string.sub(member, 5))
    else
      redis.call('XADD', KEYS[4], '*', 'd', string.sub(member, 5 + size), 'n', string.sub(member, 5, 4 + size))
    end
    length = length + 1
  end
  fired = redis.call('HINCRBY', KEYS[3], 'fired', 1)
  count = count + 1
end
if ARGV[4] == '' or (limit > 0 and fired >= limit) then
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('DEL', KEYS[3])
else
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[2])
end
return count
