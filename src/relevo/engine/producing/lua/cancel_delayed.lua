--!member
--!lane
--!flow
--!forget
-- cancel_delayed.lua: takes a delayed job back, as long as it has not been promoted; its id may then be used again.
-- KEYS delayed, member of the id   ARGV tag, job id
-- -> 1 cancelled, 0 not there (never delayed by this id, promoted, or cancelled)
local member = redis.call('GET', KEYS[2])
if not member or redis.call('ZREM', KEYS[1], member) == 0 then return 0 end
forget(ARGV[1], ARGV[2])
return 1
