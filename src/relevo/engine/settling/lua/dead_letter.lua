--!gate
-- dead_letter.lua: takes entries out of the group and writes them to the DLQ.
-- KEYS stream, dlq   ARGV group, owner ('': not asked), cap, then for each: entry id, number of fields and values, these
-- -> for each 1 moved, 0 no longer ours (nothing was done)
redis.call('XLEN', KEYS[2]) -- a key of another type fails here, before anything is taken out of the group
local done, at = {}, 4
while at <= #ARGV do
  local id, count = ARGV[at], tonumber(ARGV[at + 1])
  local ours = mine(KEYS[1], ARGV[1], ARGV[2], id) and gate(KEYS[1], ARGV[1], id)
  if ours then redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, at + 2, at + 1 + count)) end
  done[#done + 1] = ours and 1 or 0
  at = at + 2 + count
end
return done
