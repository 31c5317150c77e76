-- order_take.lua: takes the first members out of a queue's order index, and notes them as taken until their claim is through.
-- What was taken long ago and never settled (its process died) goes back first: it may be claimed, then its row says so.
-- KEYS order, taken   ARGV mark, how many, now (ms), taken before (ms), ttl (ms)
-- -> [score:id, ...], or nil when the index is not whole (none, or not built on this run of the server)
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[2] ~= 'inf' or last[1] ~= ARGV[1] then
  return false
end
local lost = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[4], 'LIMIT', 0, 1000)
for _, member in ipairs(lost) do
  local colon = string.find(member, ':', 1, true)
  redis.call('ZADD', KEYS[1], string.sub(member, 1, colon - 1), string.sub(member, colon + 1))
  redis.call('ZREM', KEYS[2], member)
end
local first = redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
if first[#first] == 'inf' then
  first[#first] = nil
  first[#first] = nil
end
local taken = {}
local notes = {}
for at = 1, #first, 2 do
  local member = first[at + 1] .. ':' .. first[at]
  taken[#taken + 1] = member
  notes[#notes + 1] = ARGV[3]
  notes[#notes + 1] = member
end
if #taken > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #taken - 1)
  for at = 1, #notes, 1000 do
    redis.call('ZADD', KEYS[2], unpack(notes, at, math.min(at + 999, #notes)))
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return taken
