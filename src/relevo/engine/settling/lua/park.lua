--!gate
--!member
--!lane
-- park.lua: puts jobs back that were told to come later, without counting a run. With a lane the whole lane waits, and the
-- job keeps its place at the head of it.
-- KEYS stream, delayed   ARGV tag, group, owner ('': not asked), then for each: entry id, wait ms, member, job id, lane
-- -> for each 1 parked, 0 no longer ours (nothing was done)
local tag, done, now = ARGV[1], {}, now_ms()
for at = #ARGV - 4, 4, -5 do -- from the last: each goes before the ones behind it
  local entry, wait, member, id, lane = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local ours = mine(KEYS[1], ARGV[2], ARGV[3], entry) and gate(KEYS[1], ARGV[2], entry)
  if ours and lane == '' then
    redis.call('ZADD', KEYS[2], now + wait, member)
  elseif ours then
    redis.call('SREM', tag .. ':flying:' .. lane, id)
    redis.call('LPUSH', tag .. ':lane:' .. lane, member)
    count_waiting(tag, lane, 1)
    redis.call('ZREM', tag .. ':lanes', lane)
    redis.call('ZADD', tag .. ':lanes:later', 'GT', now + wait, lane)
    local left = redis.call('PTTL', tag .. ':parked:' .. lane) -- a new limit does not let it go before its time
    if wait > left and wait > 0 then redis.call('SET', tag .. ':parked:' .. lane, '1', 'PX', wait) end
  end
  done[(at - 4) / 5 + 1] = ours and 1 or 0
end
return done
