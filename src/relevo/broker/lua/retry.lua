--!gate
-- retry.lua: takes failed entries out of the group and delays their next run, by the server's clock.
-- KEYS stream, delayed   ARGV group, owner ('': not asked), then for each: entry id, wait ms, member
-- -> for each 1 delayed, 0 no longer ours (nothing was done)
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before anything is taken out of the group
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local done = {}
for at = 3, #ARGV, 3 do
  local ours = mine(KEYS[1], ARGV[1], ARGV[2], ARGV[at]) and gate(KEYS[1], ARGV[1], ARGV[at])
  if ours then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[at + 1]), ARGV[at + 2]) end
  done[#done + 1] = ours and 1 or 0
end
return done
