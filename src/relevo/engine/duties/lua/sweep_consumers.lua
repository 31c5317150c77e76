-- sweep_consumers.lua: removes consumers that hold nothing and have not asked for work for a long time.
-- KEYS stream   ARGV group, idle ms   -> their names
local gone = {}
for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local values = {}
  for at = 1, #each, 2 do values[each[at]] = each[at + 1] end
  if values['pending'] == 0 and values['idle'] >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], values['name'])
    gone[#gone + 1] = values['name']
  end
end
return gone
