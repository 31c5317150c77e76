--!member
--!lane
--!flow
-- release_gone.lua: gives up what jobs held that are gone without having been settled by us (dead-lettered by the stalled
-- detector, removed by hand, or finished by a worker that knows no notes); a flow that waits for one hears that it failed.
-- KEYS stream, notes   ARGV tag, then for each: job id, lane, dedup key, flow, node in it, why   -> number released
local tag = ARGV[1]
for at = 2, #ARGV, 6 do
  local id, lane, dedup, flow, node, why = unpack(ARGV, at, at + 5)
  if lane ~= '' then leave_lane(tag, lane, id) end
  if dedup ~= '' and redis.call('GET', tag .. ':dedup:' .. dedup) == id then redis.call('DEL', tag .. ':dedup:' .. dedup) end
  redis.call('HDEL', KEYS[2], id)
  if flow ~= '' then flow_step(tag, KEYS[1], flow, node, 'failed', why) end
end
return (#ARGV - 1) / 6
