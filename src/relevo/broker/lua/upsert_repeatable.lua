-- upsert_repeatable.lua: makes or changes a schedule. Its limit counts from now; an unchanged pattern keeps its beat, so
-- that an application that upserts at every start does not push its schedules back each time.
-- KEYS repeat, spec, paused   ARGV key, next_fire_ms, spec bytes, '1' when the pattern is the same as before
-- -> the score it has now
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
local score = ARGV[2]
if ARGV[4] == '1' and before then score = before end
redis.call('ZADD', KEYS[1], score, ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[2], 'spec', ARGV[3])
redis.call('HDEL', KEYS[2], 'fired')
return score
