-- find_job.lua: one step of the search for a job: through a page of the stream, of the delayed set, of the dead letters and of its lane.
-- KEYS stream, delayed, dlq, result, failure   ARGV group, job id, page, stream from ('': done) and to, delayed rank ('': done; from the
--   end, where promotions shift nothing), dlq from ('': done) and to, place in its lane ('': done; from the end too), tag
-- -> {{{entry id, fields, consumer or ''}...}, next from, {{member, score}...}, next rank, {{dlq id, fields}...}, next from,
--     1 with a result, {member...}, next place, how it failed or nil}
-- All that contains the id is returned: only the caller, who decodes it, can tell the job from one that mentions it.
local id, page = ARGV[2], tonumber(ARGV[3])

local function search(key, from, to)
  local found, following = {}, ''
  if from ~= '' then
    local entries = redis.call('XRANGE', key, from, to, 'COUNT', page)
    for _, entry in ipairs(entries) do
      for at = 2, #entry[2], 2 do
        if string.find(entry[2][at], id, 1, true) then
          found[#found + 1] = entry
          break
        end
      end
    end
    if #entries == page then following = '(' .. entries[page][1] end
  end
  return found, following
end

local waiting, stream_next = search(KEYS[1], ARGV[4], ARGV[5])
for _, entry in ipairs(waiting) do
  local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
  entry[3] = not pending.err and pending[1] and pending[1][2] or ''
end

local delayed, delayed_next = {}, ''
if ARGV[6] ~= '' then
  local rank = tonumber(ARGV[6])
  local members = redis.call('ZREVRANGE', KEYS[2], rank, rank + page - 1, 'WITHSCORES')
  for at = 1, #members, 2 do
    if string.find(members[at], id, 1, true) then delayed[#delayed + 1] = {members[at], members[at + 1]} end
  end
  if #members == 2 * page then delayed_next = tostring(rank + page) end
end

local dead, dead_next = search(KEYS[3], ARGV[7], ARGV[8])

local laned, lane_next = {}, ''
if ARGV[9] ~= '' then
  local ok, known = pcall(cmsgpack.unpack, redis.call('HGET', ARGV[10] .. ':notes', id) or '')
  if ok and type(known) == 'table' and known['lane'] then
    local place = tonumber(ARGV[9])
    local members = redis.call('LRANGE', ARGV[10] .. ':lane:' .. known['lane'], -place - page, -place - 1)
    for _, member in ipairs(members) do
      if string.find(member, id, 1, true) then laned[#laned + 1] = member end
    end
    if #members == page then lane_next = tostring(place + page) end
  end
end
return {waiting, stream_next, delayed, delayed_next, dead, dead_next, redis.call('EXISTS', KEYS[4]), laned, lane_next,
  redis.call('GET', KEYS[5])}
