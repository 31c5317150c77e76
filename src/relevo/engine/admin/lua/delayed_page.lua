-- delayed_page.lua: delayed jobs in the order of their time, behind a place that stays right whatever was added or removed.
-- KEYS delayed   ARGV score of the place ('': from the start), member of the place, '1' when that is only its beginning, limit
-- -> {{{member, score}...}, 1 when there may be more}
-- Members of one score stand in the order of their bytes. Compared by hand: Lua's `<` follows the server's locale.
local function behind(member, place, cut)
  if cut then member = string.sub(member, 1, #place) end
  for at = 1, math.min(#member, #place) do
    local ours, theirs = string.byte(member, at), string.byte(place, at)
    if ours ~= theirs then return ours > theirs end
  end
  return #member > #place
end

local start = 0
if ARGV[1] ~= '' then
  start = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[1])
  local last = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])
  while start < last do
    local middle = math.floor((start + last) / 2)
    if behind(redis.call('ZRANGE', KEYS[1], middle, middle)[1], ARGV[2], ARGV[3] == '1') then
      last = middle
    else
      start = middle + 1
    end
  end
end
local limit = tonumber(ARGV[4])
local members = redis.call('ZRANGE', KEYS[1], start, start + limit - 1, 'WITHSCORES')
local found = {}
for at = 1, #members, 2 do found[#found + 1] = {members[at], members[at + 1]} end
return {found, #found == limit and 1 or 0}
