--!gate
--!member
--!lane
--!flow
-- settle_noted.lua: settles jobs that carry notes: what they held (a place in a lane, a dedup key) is free in the same step,
-- and what waited for them in a flow goes on.
-- KEYS stream, dlq, notes   ARGV tag, group, owner ('': not asked), window, dlq cap, result ttl s (0: none are stored), then for each:
--   entry id, job id, lane, dedup key, flow, node in it, its state there, result bytes (or the reason of a failure),
--   number of dead-letter fields and values (0: it is done), these
-- -> for each 1 settled, 0 no longer ours (nothing was done)
local tag, group, owner, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6])
local done, freed, at = {}, 0, 7
while at <= #ARGV do
  local entry, id, lane, dedup, flow, node, state, result = unpack(ARGV, at, at + 7)
  local count = tonumber(ARGV[at + 8])
  local ours = mine(KEYS[1], group, owner, entry) and gate(KEYS[1], group, entry)
  if ours then
    if count > 0 then
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', unpack(ARGV, at + 9, at + 8 + count))
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
  at = at + 9 + count
end
if freed > 0 then dispatch(tag, KEYS[1], now_ms(), math.min(freed, room(KEYS[1], group, ARGV[4]))) end
return done
