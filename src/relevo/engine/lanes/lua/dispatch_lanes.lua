--!member
--!lane
-- dispatch_lanes.lua: lets lanes go whose time has come, and fills the stream up to its window.
-- KEYS lock, stream   ARGV holder, tag, group, window   -> {moved, lanes with work, ms until a waiting lane may go or -1},
-- or {-1} when the lock is not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1} end
local tag, now = ARGV[2], now_ms()
for _, lane in ipairs(redis.call('ZRANGEBYSCORE', tag .. ':lanes:later', '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', tag .. ':lanes:later', lane)
  join_ring(tag, lane)
end
local moved = dispatch(tag, KEYS[2], now, math.min(1000, room(KEYS[2], ARGV[3], ARGV[4])))
local later = redis.call('ZRANGE', tag .. ':lanes:later', 0, 0, 'WITHSCORES')
local wait = -1
if later[2] then wait = math.max(0, math.ceil(tonumber(later[2]) - now)) end
return {moved, redis.call('ZCARD', tag .. ':lanes'), wait}
