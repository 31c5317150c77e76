-- order_begin.lua: begins to build a queue's order index anew, unless somebody is at it.
-- KEYS builder, building   ARGV token, mark, ttl (ms)   -> 1 begun, 0 somebody is at it
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then
  return 0
end
redis.call('DEL', KEYS[2])
redis.call('ZADD', KEYS[2], '+inf', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
