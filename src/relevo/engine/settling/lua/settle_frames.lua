--!gate
-- settle_frames.lua: settles entries that carried many jobs, each with everything its jobs came to, or not at all.
-- KEYS stream, delayed, dlq   ARGV tag, group, owner ('': not asked), result ttl s, dlq cap, s to keep a
--   failure after the next run is due, then for each frame:
--   entry id, how many results, retries, letters and jobs to put back, then
--   for each result job id and bytes, for each retry wait ms, member, job id and failure ('': none), for each letter the number of its fields and values
--   and these, for each job to put back envelope and name
-- -> for each 1 settled, 0 no longer ours (nothing was done)
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before anything is taken out of the group
redis.call('XLEN', KEYS[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local done, at = {}, 7
while at <= #ARGV do
  local entry, results, retries, letters, back = unpack(ARGV, at, at + 4)
  local ours = mine(KEYS[1], ARGV[2], ARGV[3], entry) and gate(KEYS[1], ARGV[2], entry)
  at = at + 5
  for _ = 1, tonumber(results) do
    if ours then redis.call('SET', ARGV[1] .. ':result:' .. ARGV[at], ARGV[at + 1], 'EX', ARGV[4]) end
    at = at + 2
  end
  for _ = 1, tonumber(retries) do
    if ours then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[at]), ARGV[at + 1]) end
    if ours and ARGV[at + 3] ~= '' then
      redis.call('SET', ARGV[1] .. ':failure:' .. ARGV[at + 2], ARGV[at + 3], 'PX', ARGV[at] + ARGV[6] * 1000)
    end
    at = at + 4
  end
  for _ = 1, tonumber(letters) do
    local count = tonumber(ARGV[at])
    if ours then redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*', unpack(ARGV, at + 1, at + count)) end
    at = at + 1 + count
  end
  for _ = 1, tonumber(back) do
    if ours and ARGV[at + 1] == '' then
      redis.call('XADD', KEYS[1], '*', 'd', ARGV[at])
    elseif ours then
      redis.call('XADD', KEYS[1], '*', 'd', ARGV[at], 'n', ARGV[at + 1])
    end
    at = at + 2
  end
  done[#done + 1] = ours and 1 or 0
end
return done
