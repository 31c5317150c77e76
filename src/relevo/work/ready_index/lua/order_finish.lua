-- order_finish.lua: puts the index that was built in its place, if it is still ours and still there.
-- KEYS builder, building, order   ARGV token, mark, ttl (ms)   -> 1 in place, 0 begin again
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  return 0
end
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('DEL', KEYS[1])
return 1
