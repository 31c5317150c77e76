-- pause_repeatable.lua: sets a schedule aside (from repeat to paused) or takes it up again (the other way).
-- KEYS from, to   ARGV key, score there ('': the one it had), score it was read with ('': any)   -> 1 moved, 0 not there
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or (ARGV[3] ~= '' and tonumber(score) ~= tonumber(ARGV[3])) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2] == '' and score or ARGV[2], ARGV[1])
return 1
