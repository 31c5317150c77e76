--!member
--!lane
-- limit_lane.lua: sets or removes the limit of one lane or ('*') of all that have none of their own, and lets lanes that the
-- limit before held back try again. A lane that was told to wait (`:parked`) waits on.
-- KEYS limits   ARGV tag, lane, limit ('': remove it)   -> 1, or 0 when there was none to remove
local tag, changed = ARGV[1], 1
if ARGV[3] == '' then
  changed = redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
for _, lane in ipairs(ARGV[2] == '*' and redis.call('HKEYS', tag .. ':lanes:sizes') or {ARGV[2]}) do
  if lane ~= '' and redis.call('EXISTS', tag .. ':lane:' .. lane) == 1 and redis.call('EXISTS', tag .. ':parked:' .. lane) == 0 then
    redis.call('ZREM', tag .. ':lanes:later', lane)
    join_ring(tag, lane)
  end
end
return changed
