--!gate
-- hand_back.lua: gives entries that this consumer will not run to whoever reads next, without counting a delivery.
-- KEYS stream, places   ARGV group, consumer, then for each: entry id, deliveries before ours   -> number handed back
-- With work waiting, readers are not blocked and take abandoned entries first: the entry is marked as abandoned under a
-- consumer that nobody runs. With nothing waiting, readers sleep until something is added: the entry is added again.
local function group_is_drained()
  local info = redis.call('XINFO', 'GROUPS', KEYS[1])
  for _, each in ipairs(info) do
    local values = {}
    for at = 1, #each, 2 do values[each[at]] = each[at + 1] end
    if values['name'] == ARGV[1] then
      local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
      return last[1] == nil or redis.call('XRANGE', KEYS[1], '(' .. values['last-delivered-id'], '+', 'COUNT', 1)[1] == nil
    end
  end
  return false
end

local drained = group_is_drained()
local back = 0
for at = 3, #ARGV, 2 do
  local id, before = ARGV[at], tonumber(ARGV[at + 1])
  if mine(KEYS[1], ARGV[1], ARGV[2], id) then
    redis.call('ZREM', KEYS[2], id) -- whoever runs it next asks for a place of its own
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if entry == nil then
      gate(KEYS[1], ARGV[1], id)
    elseif drained and before == 0 then
      if gate(KEYS[1], ARGV[1], id) then redis.call('XADD', KEYS[1], '*', unpack(entry[2])) end
      back = back + 1
    else
      redis.call('XCLAIM', KEYS[1], ARGV[1], 'c-handed-back', 0, id, 'IDLE', 86400000, 'RETRYCOUNT', before, 'JUSTID')
      back = back + 1
    end
  end
end
return back
