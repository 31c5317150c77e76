--!gate
--!member
--!lane
--!flow
--!forget
-- drain.lua: removes one page of the jobs nobody has begun: of the stream, of the delayed set, or of a lane. What workers
-- hold stays.
-- KEYS stream, delayed   ARGV tag, group, consumer of what was handed back, 'stream', 'delayed' or 'lane', from (or the lane), to,
--   page
-- -> {removed, where to go on or '' at the end}
-- The ids of removed jobs may be used again at once.
local tag, group, page = ARGV[1], ARGV[2], tonumber(ARGV[7])

local function release(envelope)
  local id = envelope and id_of(envelope)
  if id then forget(tag, id) end
end

if ARGV[4] == 'lane' then
  local lane = tag .. ':lane:' .. ARGV[5]
  local members = redis.call('LRANGE', lane, 0, page - 1)
  redis.call('LTRIM', lane, #members, -1)
  thin_out(tag, ARGV[5], #members)
  for _, member in ipairs(members) do
    local _, envelope = split(member)
    release(envelope)
  end
  return {#members, #members == page and ARGV[5] or ''}
end

local removed = 0
if ARGV[4] == 'delayed' then
  local members = redis.call('ZRANGE', KEYS[2], 0, page - 1)
  for _, member in ipairs(members) do
    redis.call('ZREM', KEYS[2], member)
    local _, envelope = split(member)
    release(envelope)
  end
  return {#members, #members == page and '0' or ''}
end

local entries = redis.call('XRANGE', KEYS[1], ARGV[5], ARGV[6], 'COUNT', page)
for _, entry in ipairs(entries) do
  local pending = redis.pcall('XPENDING', KEYS[1], group, entry[1], entry[1], 1)
  local owner = not pending.err and pending[1] and pending[1][2]
  if not owner or owner == ARGV[3] then
    if owner then gate(KEYS[1], group, entry[1]) else redis.call('XDEL', KEYS[1], entry[1]) end
    removed = removed + 1
    for at = 1, #entry[2], 2 do
      if entry[2][at] == 'd' then release(entry[2][at + 1]) end
    end
  end
end
return {removed, #entries == page and '(' .. entries[page][1] or ''}
