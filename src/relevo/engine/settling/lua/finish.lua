--!gate
-- finish.lua: settles finished entries of a worker whose lease may have lapsed: only what is still its own.
-- KEYS stream, then the result key of each   ARGV group, owner, result ttl s, then for each: entry id, result bytes ('': none)
-- -> for each 1 settled, 0 no longer ours (nothing was done)
local done = {}
for at = 4, #ARGV, 2 do
  local ours = mine(KEYS[1], ARGV[1], ARGV[2], ARGV[at]) and gate(KEYS[1], ARGV[1], ARGV[at])
  if ours and ARGV[at + 1] ~= '' then redis.call('SET', KEYS[2 + (at - 4) / 2], ARGV[at + 1], 'EX', ARGV[3]) end
  done[#done + 1] = ours and 1 or 0
end
return done
