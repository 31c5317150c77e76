--!gate
-- retry.lua: takes failed entries out of the group, delays their next run, by the server's clock, keeps how they failed, and
-- tells of it.
-- KEYS stream, delayed, events   ARGV group, owner ('': not asked), events cap (0: no events), tag, s to keep a failure after the
--   next run is due, then for each: entry id, wait ms, member, job id, name, attempt to come, failure ('': none)
-- -> for each 1 delayed, 0 no longer ours (nothing was done)
-- Told here and not by the worker afterwards: a short wait may be over before it hears that the job is delayed.
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before anything is taken out of the group
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function tell(at) -- pcall: an events key that cannot be written must not hold up the jobs
  local wait, id, name, attempt = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if name == '' then
    redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', 'e', 'retry-scheduled', 'id', id, 'ts', now,
      'attempt', attempt, 'backoff_ms', wait)
  else
    redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', 'e', 'retry-scheduled', 'id', id, 'ts', now, 'n', name,
      'attempt', attempt, 'backoff_ms', wait)
  end
end

local done, due = {}, {}
for number, ours in ipairs(gate_all(KEYS[1], ARGV[1], ARGV[2], 6, 7)) do
  local at = 7 * number - 1
  if ours then
    due[#due + 1] = now + tonumber(ARGV[at + 1])
    due[#due + 1] = ARGV[at + 2]
    if ARGV[at + 6] ~= '' then
      redis.call('SET', ARGV[4] .. ':failure:' .. ARGV[at + 3], ARGV[at + 6], 'PX', ARGV[at + 1] + ARGV[5] * 1000)
    end
    if ARGV[3] ~= '0' then tell(at) end
  end
  done[number] = ours and 1 or 0
end
if #due > 0 then redis.call('ZADD', KEYS[2], unpack(due)) end
return done
