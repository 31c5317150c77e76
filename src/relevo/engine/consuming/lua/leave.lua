-- leave.lua: removes a consumer from the group, unless entries are still pending for it (they would be lost with it).
-- KEYS stream   ARGV group, consumer   -> entries still pending; 0 means it is gone
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if #pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return #pending
