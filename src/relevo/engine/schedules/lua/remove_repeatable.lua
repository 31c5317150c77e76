-- remove_repeatable.lua: ends a schedule.   KEYS repeat, spec, paused, declared   ARGV key   -> 1 removed, 0 there was none
local there = redis.call('ZREM', KEYS[1], ARGV[1]) + redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[4], ARGV[1])
return there > 0 and 1 or 0
