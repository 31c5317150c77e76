-- forget: lets go of all that a removed job held by its id: markers, progress, log, failure, refusals, its place in a lane, its dedup key. A flow
-- that waits for it hears that it was cancelled.
local function forget(tag, id)
  redis.call('DEL', tag .. ':didx:' .. id, tag .. ':dlid:' .. id, tag .. ':progress:' .. id, tag .. ':log:' .. id,
    tag .. ':failure:' .. id, tag .. ':refused:' .. id)
  local notes = redis.call('HGET', tag .. ':notes', id)
  if not notes then return end
  redis.call('HDEL', tag .. ':notes', id)
  local ok, known = pcall(cmsgpack.unpack, notes)
  if not ok or type(known) ~= 'table' then return end
  local dedup = known['dedup'] and tag .. ':dedup:' .. known['dedup']
  if dedup and redis.call('GET', dedup) == id then redis.call('DEL', dedup) end
  if known['lane'] then leave_lane(tag, known['lane'], id) end
  local flow, node = string.match(known['flow'] or '', '^(.*)/(%d+)$')
  if flow then flow_step(tag, tag .. ':stream', flow, node, 'cancelled', 'the job was removed') end
end
