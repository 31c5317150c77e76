--!window
--!bucket
-- lane: moving jobs out of their lanes into the stream. Lanes take turns; each keeps its own order and its own limits.
-- The ring (`:lanes`) holds the lanes that have work and may move it; a lane at its concurrency limit leaves the ring until
-- one of its jobs is finished, a lane that has used its rate waits in `:lanes:later` for its time. `:lanes:sizes` counts the jobs that
-- wait in each lane, and under the empty name in all of them.
local function lane_limit(tag, lane)
  local text = redis.call('HGET', tag .. ':lanes:limits', lane) or redis.call('HGET', tag .. ':lanes:limits', '*')
  if not text then return 0, 0, 0, 0 end
  local at_once, count, ms, burst = string.match(text, '^(%d+),(%d+),(%d+),?(%d*)$')
  return tonumber(at_once) or 0, tonumber(count) or 0, tonumber(ms) or 0, tonumber(burst) or 0
end

local function join_ring(tag, lane)
  if redis.call('ZSCORE', tag .. ':lanes', lane) or redis.call('ZSCORE', tag .. ':lanes:later', lane) then return end
  local last = redis.call('ZREVRANGE', tag .. ':lanes', 0, 0, 'WITHSCORES')
  redis.call('ZADD', tag .. ':lanes', tonumber(last[2] or '0') + 1, lane)
end

local function count_waiting(tag, lane, change)
  local sizes = tag .. ':lanes:sizes'
  if redis.call('HINCRBY', sizes, lane, change) <= 0 then redis.call('HDEL', sizes, lane) end
  if redis.call('HINCRBY', sizes, '', change) <= 0 then redis.call('DEL', sizes) end
end

-- How many jobs wait in lanes.
local function laned(tag)
  return tonumber(redis.call('HGET', tag .. ':lanes:sizes', '') or '0')
end

local function enter_lane(tag, lane, member)
  redis.call('RPUSH', tag .. ':lane:' .. lane, member)
  count_waiting(tag, lane, 1)
  join_ring(tag, lane)
end

-- After `count` jobs were taken out of a lane without having had their turn: an empty lane has no turn to wait for.
local function thin_out(tag, lane, count)
  if count == 0 then return end
  count_waiting(tag, lane, -count)
  if redis.call('EXISTS', tag .. ':lane:' .. lane) == 1 then return end
  redis.call('ZREM', tag .. ':lanes', lane)
  redis.call('ZREM', tag .. ':lanes:later', lane)
end

-- Gives the place of a job that has left the lane to the next one.
local function leave_lane(tag, lane, id)
  redis.call('SREM', tag .. ':flying:' .. lane, id)
  if redis.call('EXISTS', tag .. ':lane:' .. lane) == 1 then join_ring(tag, lane) end
end

-- Takes one start of a lane's rate; returns 0, or the ms until there is one.
local function take_start(tag, lane, count, ms, burst, now)
  if burst > 0 then
    local _, wait = bucket_take(tag .. ':bucket:' .. lane, 1, burst, count, ms, now)
    return wait
  end
  local key = tag .. ':starts:' .. lane
  local room, wait = window_room(key, count, ms, now)
  if room > 0 then window_take(key, tostring(room), 1, now + 1, 2 * ms) end -- rounded up, as in started.lua
  return wait
end

local function put(stream, name, envelope)
  if name == '' then
    redis.call('XADD', stream, '*', 'd', envelope)
  else
    redis.call('XADD', stream, '*', 'd', envelope, 'n', name)
  end
end

-- Moves the first job of a lane: 'moved', 'empty', 'full', or the ms to wait.
local function advance(tag, stream, lane, now)
  local key, flying = tag .. ':lane:' .. lane, tag .. ':flying:' .. lane
  if redis.call('EXISTS', key) == 0 then return 'empty' end
  local at_once, count, ms, burst = lane_limit(tag, lane)
  if at_once > 0 and redis.call('SCARD', flying) >= at_once then return 'full' end
  if count > 0 then
    local wait = take_start(tag, lane, count, ms, burst, now)
    if wait > 0 then return wait end
  end
  local name, envelope = split(redis.call('LPOP', key))
  count_waiting(tag, lane, -1)
  if envelope then
    put(stream, name, envelope)
    redis.call('SADD', flying, id_of(envelope) or '')
  end
  return 'moved'
end

-- Moves up to `budget` jobs, one lane after the other; returns how many.
local function dispatch(tag, stream, now, budget)
  local moved = 0
  while moved < budget do
    local lane = redis.call('ZRANGE', tag .. ':lanes', 0, 0)[1]
    if not lane then break end
    local outcome = advance(tag, stream, lane, now)
    redis.call('ZREM', tag .. ':lanes', lane)
    if outcome == 'moved' then
      moved = moved + 1
      if redis.call('EXISTS', tag .. ':lane:' .. lane) == 1 then join_ring(tag, lane) end
    elseif type(outcome) == 'number' then
      redis.call('ZADD', tag .. ':lanes:later', now + outcome, lane)
    end
  end
  return moved
end

-- How many more jobs may wait in the stream: enough to keep workers busy, few enough that turns mean something.
local function room(stream, group, window)
  local pending = redis.pcall('XPENDING', stream, group)
  local held = type(pending) == 'table' and not pending.err and tonumber(pending[1]) or 0
  return tonumber(window) - (redis.call('XLEN', stream) - held)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
