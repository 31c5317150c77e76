-- active_page.lua: jobs that workers hold, in the order of the stream.
-- KEYS stream   ARGV group, consumer of what was handed back, from, entries to look at, jobs wanted
-- -> {{{entry id, fields}...}, entries looked at, where to go on or '' at the end}
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], '+', ARGV[4])
if pending.err then return {{}, 0, ''} end
local found, looked = {}, 0
for _, each in ipairs(pending) do
  looked = looked + 1
  if each[2] ~= ARGV[2] then
    local entry = redis.call('XRANGE', KEYS[1], each[1], each[1])[1]
    if entry then found[#found + 1] = entry end
  end
  if #found == tonumber(ARGV[5]) then break end
end
local ended = looked == #pending and #pending < tonumber(ARGV[4])
return {found, looked, ended and '' or '(' .. pending[looked][1]}
