--!member
--!lane
-- promote.lua: moves due jobs from the delayed set into the stream, by the server's clock, while the lock is ours.
-- KEYS lock, delayed, stream, dlq, events   ARGV holder, limit, stream cap, dlq cap, events cap (0: no events)
-- -> {moved, left in the set, lag of the oldest in ms, ms until the next is due or -1}, or {-1} when the lock is not ours.
-- A member that is no job goes to the DLQ with its bytes: it must not stop the ones behind it. A full stream leaves the
-- rest where it is. Each member leaves the set right after it was written: an error can never repeat the earlier ones.
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
local limit = math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - redis.call('XLEN', KEYS[3]))
local moved, lag = 0, 0
if limit > 0 then
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #due, 2 do
    local member = due[at]
    if at == 1 then lag = now - tonumber(due[2]) end
    local name, envelope = split(member)
    if envelope and envelope ~= '' then
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
      if id then redis.call('DEL', tag .. ':didx:' .. id) end
    else
      redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'd', member, 'source_id', '', 'reason', 'malformed',
        'detail', 'a delayed member without a readable length prefix')
    end
    redis.call('ZREM', KEYS[2], member)
    moved = moved + 1
  end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local wait = -1
if first[2] then wait = math.max(0, math.ceil(tonumber(first[2]) - now)) end
return {moved, redis.call('ZCARD', KEYS[2]), lag, wait}
