--!gate
--!member
--!lane
--!flow
-- settle.lua: settles jobs that are done, dead-lettered, or told to come later. What an ended job held (a place in a lane, a dedup
-- key) is free in the same step, and what waited for it in a flow goes on.
-- KEYS stream, dlq, notes, delayed   ARGV tag, group, owner ('': not asked), window, dlq cap (0: none is dead),
--   result ttl s (0: none are stored), then for each: entry id, job id, lane, dedup key, flow, node in it,
--   its state (done, cancelled, failed or later), result bytes (or the reason of a failure, or the member of one that comes later),
--   ms that it waits until then, number of dead-letter fields and values, these
-- -> for each 1 settled, 0 no longer ours (nothing was done)
local tag, group, owner, ttl, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6]), now_ms()
if ARGV[5] ~= '0' then redis.call('XLEN', KEYS[2]) end -- a key of another type fails here, before anything is taken out

-- Without counting a run. With a lane the whole lane waits, and the job keeps its place at the head of it.
local function postpone(id, lane, member, wait)
  if lane == '' then
    redis.call('ZADD', KEYS[4], now + wait, member)
    return
  end
  redis.call('SREM', tag .. ':flying:' .. lane, id)
  redis.call('LPUSH', tag .. ':lane:' .. lane, member)
  count_waiting(tag, lane, 1)
  redis.call('ZREM', tag .. ':lanes', lane)
  redis.call('ZADD', tag .. ':lanes:later', 'GT', now + wait, lane)
  local left = redis.call('PTTL', tag .. ':parked:' .. lane) -- a new limit does not let it go before its time
  if wait > left and wait > 0 then redis.call('SET', tag .. ':parked:' .. lane, '1', 'PX', wait) end
end

local done, freed, at = {}, 0, 7
while at <= #ARGV do
  local entry, id, lane, dedup, flow, node, state, result, wait = unpack(ARGV, at, at + 8)
  local count = tonumber(ARGV[at + 9])
  local ours = mine(KEYS[1], group, owner, entry) and gate(KEYS[1], group, entry)
  if ours and state == 'later' then
    postpone(id, lane, result, tonumber(wait))
  elseif ours then
    if count > 0 then
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', unpack(ARGV, at + 10, at + 9 + count))
    elseif result ~= '' and ttl > 0 then
      redis.call('SET', tag .. ':result:' .. id, result, 'EX', ttl)
    end
    redis.call('HDEL', KEYS[3], id)
    if lane ~= '' then
      leave_lane(tag, lane, id)
      freed = freed + 1
    end
    if flow ~= '' then flow_step(tag, KEYS[1], flow, node, state, result) end
    if dedup ~= '' and redis.call('GET', tag .. ':dedup:' .. dedup) == id then redis.call('DEL', tag .. ':dedup:' .. dedup) end
  end
  done[#done + 1] = ours and 1 or 0
  at = at + 10 + count
end
if freed > 0 then dispatch(tag, KEYS[1], now, math.min(freed, room(KEYS[1], group, ARGV[4]))) end
return done
