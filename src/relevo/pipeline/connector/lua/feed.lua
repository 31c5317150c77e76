-- feed.lua: adds one chunk of a partition of a Spark write, unless another attempt was here first, and only while the stream
-- stays within its cap. Chosen ids that were added within their window are passed over.
-- KEYS stream, delayed, progress   ARGV tag, epoch expected, size of the progress expected, epoch, mark to append ('' none),
--   ttl of the progress, cap, window s, then for each row: run_at_ms ('' now), envelope, name, chosen id ('' none), member ('' none),
--   id and notes ('' none)
-- -> {1 added | 0 the progress is another | -1 full, length of the stream}
local tag, length = ARGV[1], redis.call('XLEN', KEYS[1])
local found = redis.call('GETRANGE', KEYS[3], 0, string.len(ARGV[4]) - 1)
if found ~= ARGV[2] or redis.call('STRLEN', KEYS[3]) ~= tonumber(ARGV[3]) then return {0, length} end
redis.call('ZCARD', KEYS[2]) -- a key of another type fails here, before anything is written
local fresh, now, met = {}, 0, {}
for at = 9, #ARGV, 7 do
  local id = ARGV[at + 3]
  if id == '' or not (met[id] or redis.call('EXISTS', tag .. ':dlid:' .. id) == 1) then
    fresh[#fresh + 1] = at
    if ARGV[at] == '' then now = now + 1 end
    if id ~= '' then met[id] = true end
  end
end
if now > 0 and length + now > tonumber(ARGV[7]) then return {-1, length} end
for _, at in ipairs(fresh) do
  local run_at, envelope, name, id, member = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if id ~= '' then
    local window = tonumber(ARGV[8])
    if run_at ~= '' then
      window = window + math.max(1, math.ceil(tonumber(run_at) / 1000 - redis.call('TIME')[1]))
      redis.call('SET', tag .. ':didx:' .. id, member, 'EX', window)
    end
    redis.call('SET', tag .. ':dlid:' .. id, '1', 'EX', window)
    redis.call('ZREM', tag .. ':cancelled', id) -- a mark that was meant for a job before this one
  end
  if ARGV[at + 6] ~= '' then redis.call('HSET', tag .. ':notes', ARGV[at + 5], ARGV[at + 6]) end
  if run_at ~= '' then
    redis.call('ZADD', KEYS[2], run_at, member)
  elseif name == '' then
    redis.call('XADD', KEYS[1], '*', 'd', envelope)
  else
    redis.call('XADD', KEYS[1], '*', 'd', envelope, 'n', name)
  end
end
if ARGV[5] ~= '' then
  if found ~= ARGV[4] then redis.call('SET', KEYS[3], ARGV[4]) end
  redis.call('APPEND', KEYS[3], ARGV[5])
  redis.call('EXPIRE', KEYS[3], ARGV[6])
end
return {1, length + now}
