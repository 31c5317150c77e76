-- upsert_repeatable.lua: makes or changes a schedule. Its limit counts from now. An unchanged pattern keeps its beat, so that
-- an application that upserts at every start does not push its schedules back each time; and a paused schedule stays
-- paused, or every restart would undo what an operator did.
-- KEYS repeat, spec, paused, declared
-- ARGV key, next_fire_ms, spec bytes, the bytes before whose beat goes on ('': a new beat),
--      '1' when a pause is kept ('0': what was set aside is taken up again),
--      '1' when code declares it ('0': somebody makes it by hand, and it is not ended when it is in no code)
-- -> the score it has now
local place = KEYS[1]
if ARGV[5] == '1' and redis.call('ZSCORE', KEYS[3], ARGV[1]) then place = KEYS[3] end
local score = ARGV[2]
if ARGV[4] ~= '' and redis.call('HGET', KEYS[2], 'spec') == ARGV[4] then
  score = redis.call('ZSCORE', place, ARGV[1]) or score
end
if place == KEYS[1] then redis.call('ZREM', KEYS[3], ARGV[1]) end
redis.call('ZADD', place, score, ARGV[1])
redis.call('HSET', KEYS[2], 'spec', ARGV[3])
redis.call('HDEL', KEYS[2], 'fired')
if ARGV[6] == '1' then
  local time = redis.call('TIME')
  redis.call('ZADD', KEYS[4], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
else
  redis.call('ZREM', KEYS[4], ARGV[1])
end
return score
