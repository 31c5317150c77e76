-- waiting_page.lua: jobs of the stream that no worker holds, in order.
-- KEYS stream   ARGV group, consumer of what was handed back, from, entries to look at, jobs wanted
-- -> {{{entry id, fields}...}, entries looked at, where to go on or '' at the end}
local entries = redis.call('XRANGE', KEYS[1], ARGV[3], '+', 'COUNT', ARGV[4])
local found, looked = {}, 0
for _, entry in ipairs(entries) do
  looked = looked + 1
  local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
  if pending.err or pending[1] == nil or pending[1][2] == ARGV[2] then found[#found + 1] = entry end
  if #found == tonumber(ARGV[5]) then break end
end
local ended = looked == #entries and #entries < tonumber(ARGV[4])
return {found, looked, ended and '' or '(' .. entries[looked][1]}
