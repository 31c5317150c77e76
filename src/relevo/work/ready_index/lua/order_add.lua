-- order_add.lua: adds members to a queue's order index, if there is a whole one, and to the one being built, if there is one.
-- The mark of a whole index is its last member, with the score +inf: whoever deletes the index deletes the mark with it.
-- KEYS order, building   ARGV score, id, score, id, ...   -> 1 added to a whole index, 0 there is none
local function add(key)
  for at = 1, #ARGV, 1000 do
    redis.call('ZADD', key, unpack(ARGV, at, math.min(at + 999, #ARGV)))
  end
end

if redis.call('EXISTS', KEYS[2]) == 1 then
  add(KEYS[2])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[2] ~= 'inf' then
  return 0
end
add(KEYS[1])
return 1
