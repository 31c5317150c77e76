-- renew.lua: renews the leases of a worker; never takes back what another worker has claimed.
-- KEYS stream, places   ARGV group, consumer, ms a place is held (0: the queue limits none), entry ids...
-- -> for each 1 renewed, 0 no longer ours
local done, hold = {}, tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 4, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[at], ARGV[at], 1)
  local ours = pending[1] ~= nil and pending[1][2] == ARGV[2]
  if ours then redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[at], 'JUSTID') end
  if ours and hold > 0 then redis.call('ZADD', KEYS[2], 'XX', now + hold, ARGV[at]) end
  done[#done + 1] = ours and 1 or 0
end
return done
