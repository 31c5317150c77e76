-- order_page.lua: adds a page of rows to the index being built, if it is still ours and still there.
-- KEYS builder, building   ARGV token, mark, ttl (ms), score, id, ...   -> 1 added, 0 begin again
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  return 0
end
for at = 4, #ARGV, 1000 do
  redis.call('ZADD', KEYS[2], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
