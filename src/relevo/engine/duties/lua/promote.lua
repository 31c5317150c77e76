--!member
--!lane
--!cap
-- promote.lua: moves due jobs from the delayed set into the stream, by the server's clock, while the lock is ours.
-- KEYS lock, delayed, stream, dlq, events   ARGV holder, limit, stream cap, dlq cap, events cap (0: no events),
--   1 when the producers' cap counts instead
-- -> {moved, left in the set, lag of the oldest in ms, ms until the next is due or -1}, or {-1} when the lock is not ours.
-- A member that is no job goes to the DLQ with its bytes: it must not stop the ones behind it. A full stream leaves the
-- rest where it is. What was written leaves the set even when a later one cannot be: an error never repeats the earlier ones.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1} end

local tag = string.sub(KEYS[2], 1, -string.len(':delayed') - 1)
local noted = redis.call('EXISTS', tag .. ':notes') == 1

-- The lane a job has yet to go through: not a job that has left it and comes back for a retry.
local function lane_of(id)
  local notes = redis.call('HGET', tag .. ':notes', id)
  local ok, known = pcall(cmsgpack.unpack, notes or '')
  local lane = ok and type(known) == 'table' and known['lane']
  if not lane or redis.call('SISMEMBER', tag .. ':flying:' .. lane, id) == 1 then return nil end
  return lane
end

local now = now_ms()
local index = {} -- where the members of jobs with a caller's id are kept: of no use once they have left the set

local function move(member)
  local name, envelope = split(member)
  if not envelope or envelope == '' then
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'd', member, 'source_id', '', 'reason', 'malformed',
      'detail', 'a delayed member without a readable length prefix')
    return
  end
  local id = id_of(envelope)
  if ARGV[5] ~= '0' then -- pcall: an events key that cannot be written must not hold up the jobs
    if name == '' then
      redis.pcall('XADD', KEYS[5], 'MAXLEN', '~', ARGV[5], '*', 'e', 'waiting', 'id', id or '', 'ts', now)
    else
      redis.pcall('XADD', KEYS[5], 'MAXLEN', '~', ARGV[5], '*', 'e', 'waiting', 'id', id or '', 'ts', now, 'n', name)
    end
  end
  local lane = id and noted and lane_of(id)
  if lane then
    enter_lane(tag, lane, member)
  else
    put(KEYS[3], name, envelope)
  end
  if id then index[#index + 1] = tag .. ':didx:' .. id end
end

local limit = math.min(tonumber(ARGV[2]), stream_cap(tag, ARGV[3], ARGV[6]) - redis.call('XLEN', KEYS[3]))
local gone, lag, ok, problem = 0, 0, true, nil
if limit > 0 then
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  if oldest then lag = math.max(0, now - tonumber(oldest)) end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)) do
    ok, problem = pcall(move, member)
    if not ok then break end
    gone = gone + 1
  end
  -- They are the first of the set, so by rank: by name each would be looked up again.
  if gone > 0 then redis.call('ZREMRANGEBYRANK', KEYS[2], 0, gone - 1) end
  if #index > 0 then redis.call('DEL', unpack(index)) end
  if not ok then return type(problem) == 'table' and problem or redis.error_reply(problem) end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local wait = -1
if first[2] then wait = math.max(0, math.ceil(tonumber(first[2]) - now)) end
return {gone, redis.call('ZCARD', KEYS[2]), lag, wait}
