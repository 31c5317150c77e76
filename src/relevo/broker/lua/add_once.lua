-- add_once.lua: adds a job whose id the caller chose, unless that id was added within the window.
-- KEYS once, stream   ARGV window s, cap, envelope, name   -> {1 added | 0 seen before | -1 full, length}
local length = redis.call('XLEN', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, length} end
if length >= tonumber(ARGV[2]) then return {-1, length} end
redis.call('SET', KEYS[1], '1', 'EX', ARGV[1])
if ARGV[4] == '' then
  redis.call('XADD', KEYS[2], '*', 'd', ARGV[3])
else
  redis.call('XADD', KEYS[2], '*', 'd', ARGV[3], 'n', ARGV[4])
end
return {1, length + 1}
