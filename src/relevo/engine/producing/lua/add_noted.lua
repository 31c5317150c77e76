--!member
--!lane
-- add_noted.lua: adds jobs that carry notes: into a lane, under a dedup key, or with something to remember beside them.
-- KEYS stream, delayed, notes   ARGV tag, group, window, cap, then for each: job id, s to remember the id, '1' when the caller
--   chose it, run_at_ms ('': now), member, lane, dedup key, ms the key is held, notes
-- -> for each 1 added, 0 its id was added before, -1 full, or the id of the job that holds the dedup key
-- Every id is remembered for a while: the same call, sent again after a lost answer, finds it even if the job is finished.
local tag, answers, now = ARGV[1], {}, now_ms()
local cap = tonumber(ARGV[4])
local function add(id, once_s, chosen, run_at, member, lane, dedup, dedup_ms, notes)
  if redis.call('EXISTS', tag .. ':dlid:' .. id) == 1 then return 0 end
  if run_at == '' and redis.call('XLEN', KEYS[1]) + laned(tag) >= cap then return -1 end
  if dedup ~= '' and not redis.call('SET', tag .. ':dedup:' .. dedup, id, 'NX', 'PX', dedup_ms) then
    return redis.call('GET', tag .. ':dedup:' .. dedup)
  end
  redis.call('SET', tag .. ':dlid:' .. id, '1', 'EX', once_s)
  if chosen == '1' then
    redis.call('ZREM', tag .. ':cancelled', id) -- a mark that was meant for a job before this one
    if run_at ~= '' then redis.call('SET', tag .. ':didx:' .. id, member, 'EX', once_s) end
  end
  if notes ~= '' then redis.call('HSET', KEYS[3], id, notes) end
  if run_at ~= '' then
    redis.call('ZADD', KEYS[2], run_at, member)
  elseif lane ~= '' then
    enter_lane(tag, lane, member)
  else
    local name, envelope = split(member)
    put(KEYS[1], name, envelope)
  end
  return 1
end
for at = 5, #ARGV, 9 do
  answers[#answers + 1] = add(unpack(ARGV, at, at + 8))
end
dispatch(tag, KEYS[1], now, math.min(#answers, room(KEYS[1], ARGV[2], ARGV[3])))
return answers
