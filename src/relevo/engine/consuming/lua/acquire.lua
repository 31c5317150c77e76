--!window
--!bucket
-- acquire.lua: asks for leave to start jobs: starts within the queue's rate, places of its concurrency.
-- Without a burst no window of the rate's time sees more starts than the rate. A start may come until `ms to start` after the
-- leave: it counts from there on, until started.lua tells when it was. The bucket is asked as well: ChasquiMQ's workers know only
-- that one, and whatever stays within the window stays within the bucket.
-- KEYS limiter, places, starts   ARGV rate (0: none), per ms, burst (0: none), ms to start, at once (0: none),
-- ms a place is held, entry ids...
-- -> {how many of them may start, ms to wait when none may, what to tell started.lua or ''}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate, ms, burst, to_start = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local at_once, hold = tonumber(ARGV[5]), tonumber(ARGV[6])
local granted, wait, told = #ARGV - 6, 0, ''
if at_once > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) -- places of workers that died
  local free = at_once - redis.call('ZCARD', KEYS[2])
  if free < granted then -- one that has a place needs no other: it was given before, and the answer was lost
    granted = 0
    for at = 7, #ARGV do
      if not redis.call('ZSCORE', KEYS[2], ARGV[at]) then
        if free <= 0 then break end
        free = free - 1
      end
      granted = granted + 1
    end
  end
  if granted == 0 then return {0, 50, ''} end
end
if rate > 0 then
  if burst == 0 then
    local room
    room, wait = window_room(KEYS[3], rate, ms, now)
    if room == 0 then return {0, wait, ''} end
    granted = math.min(granted, room)
  end
  granted, wait = bucket_take(KEYS[1], granted, burst > 0 and burst or rate, rate, ms, now)
  if granted == 0 then return {0, wait, ''} end
  if burst == 0 then told = window_take(KEYS[3], ARGV[7], granted, now + to_start, to_start + 2 * ms) end
end
if at_once > 0 then
  for at = 7, 6 + granted do redis.call('ZADD', KEYS[2], now + hold, ARGV[at]) end
end
return {granted, wait, told}
