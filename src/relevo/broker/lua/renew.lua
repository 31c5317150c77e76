-- renew.lua: renews the leases of a worker; never takes back what another worker has claimed.
-- KEYS stream   ARGV group, consumer, entry ids...   -> for each 1 renewed, 0 no longer ours
local done = {}
for at = 3, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[at], ARGV[at], 1)
  local ours = pending[1] ~= nil and pending[1][2] == ARGV[2]
  if ours then redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[at], 'JUSTID') end
  done[#done + 1] = ours and 1 or 0
end
return done
