-- obliterate.lua: deletes the keys that are the queue, unless workers hold jobs of it.
-- KEYS stream, then the others   ARGV consumer of what was handed back, '1' to delete them all the same
-- -> {jobs that run (nothing was done) or 0, keys deleted}
local running = 0
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
for _, each in ipairs(groups.err and {} or groups) do
  local values = {}
  for at = 1, #each, 2 do values[each[at]] = each[at + 1] end
  for _, held in ipairs(redis.call('XPENDING', KEYS[1], values['name'])[4] or {}) do
    if held[1] ~= ARGV[1] then running = running + tonumber(held[2]) end
  end
end
if running > 0 and ARGV[2] ~= '1' then return {running, 0} end
return {0, redis.call('UNLINK', unpack(KEYS))}
