-- add_once.lua: adds jobs whose ids the caller chose, except those whose id was added within the window: all that are new,
-- or none when the stream has no room for all of them.
-- KEYS stream, then the marker of each id   ARGV window s, cap, then for each: envelope, name   -> {1 or -1 full, length}
local length = redis.call('XLEN', KEYS[1])
local tag = string.sub(KEYS[1], 1, -string.len(':stream') - 1)
local fresh, met = {}, {}
for at = 2, #KEYS do
  if not met[KEYS[at]] and redis.call('EXISTS', KEYS[at]) == 0 then fresh[#fresh + 1] = at end
  met[KEYS[at]] = true
end
if #fresh > 0 and length + #fresh > tonumber(ARGV[2]) then return {-1, length} end
for _, at in ipairs(fresh) do
  local envelope, name = ARGV[2 * at - 1], ARGV[2 * at]
  redis.call('SET', KEYS[at], '1', 'EX', ARGV[1])
  -- A mark to cancel was meant for a job before this one.
  redis.call('ZREM', tag .. ':cancelled', string.sub(KEYS[at], #tag + string.len(':dlid:') + 1))
  if name == '' then
    redis.call('XADD', KEYS[1], '*', 'd', envelope)
  else
    redis.call('XADD', KEYS[1], '*', 'd', envelope, 'n', name)
  end
end
return {1, length + #fresh}
