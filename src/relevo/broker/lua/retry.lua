--!gate
-- retry.lua: takes failed entries out of the group and delays their next run, by the server's clock.
-- KEYS stream, delayed   ARGV group, owner ('': not asked), then for each: entry id, wait ms, member
-- -> for each 1 delayed, 0 no longer ours (nothing was done)
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before anything is taken out of the group
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local done, due = {}, {}
for number, ours in ipairs(gate_all(KEYS[1], ARGV[1], ARGV[2], 3, 3)) do
  local at = 3 * number
  if ours then
    due[#due + 1] = now + tonumber(ARGV[at + 1])
    due[#due + 1] = ARGV[at + 2]
  end
  done[number] = ours and 1 or 0
end
if #due > 0 then redis.call('ZADD', KEYS[2], unpack(due)) end
return done
