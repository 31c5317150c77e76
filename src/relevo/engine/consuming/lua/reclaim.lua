-- reclaim.lua: takes over entries whose worker has gone silent; what XREADGROUP ... CLAIM does on newer servers.
-- KEYS stream   ARGV group, consumer, idle ms, limit   -> {{entry id, fields, idle ms, deliveries before this one}...}
local found = {}
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', ARGV[4])
for _, each in ipairs(pending) do
  local id, idle, deliveries = each[1], each[3], each[4]
  local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], id)
  if claimed[1] then
    found[#found + 1] = {id, claimed[1][2], idle, deliveries}
  else
    redis.call('XACK', KEYS[1], ARGV[1], id) -- deleted while pending: nothing is left to run
  end
end
return found
