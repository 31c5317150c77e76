-- take_up.lua: gives a consumer again what is pending for it, when the answer that held it was lost. No delivery is counted:
-- nothing ran, nobody died.
-- KEYS stream   ARGV group, consumer, first id, limit   -> {{entry id, fields, idle ms, deliveries before this one}...}
local found = {}
for _, each in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], '+', ARGV[4], ARGV[2])) do
  local id = each[1]
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  if entry then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
    found[#found + 1] = {id, entry[2], each[3], each[4] - 1}
  else
    redis.call('XACK', KEYS[1], ARGV[1], id) -- deleted while pending: nothing is left to run
  end
end
return found
