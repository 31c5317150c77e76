--!gate
--!member
--!lane
--!flow
--!forget
-- remove_jobs.lua: takes jobs out of wherever they were found, except out of a worker's hands.
-- KEYS stream, delayed, dlq   ARGV tag, group, consumer of what was handed back, then for each: kind, job id ('': not known), place
--   kind `stream` (place: entry id), `delayed` or `lane` (member), `dlq` (its id), `result`, or `id` (all that is remembered of the id)
-- -> for each 1 removed, 0 was not there, -1 spared because it runs
-- Entries of the stream come first in the list: what belongs to a job that runs stays.
local tag, group, running, done = ARGV[1], ARGV[2], {}, {}

local function remove_entry(id, entry)
  local pending = redis.pcall('XPENDING', KEYS[1], group, entry, entry, 1)
  local owner = not pending.err and pending[1] and pending[1][2]
  if owner and owner ~= ARGV[3] then
    running[id] = true
    return -1
  end
  if owner then return gate(KEYS[1], group, entry) and 1 or 0 end
  return redis.call('XDEL', KEYS[1], entry)
end

local function lane_of(id)
  local ok, known = pcall(cmsgpack.unpack, redis.call('HGET', tag .. ':notes', id) or '')
  return ok and type(known) == 'table' and known['lane'] or ''
end

for at = 4, #ARGV, 3 do
  local kind, id, place, removed = ARGV[at], ARGV[at + 1], ARGV[at + 2], 0
  if kind == 'stream' then
    removed = remove_entry(id, place)
  elseif kind == 'delayed' then
    removed = redis.call('ZREM', KEYS[2], place)
  elseif kind == 'lane' then
    local lane = lane_of(id)
    removed = redis.call('LREM', tag .. ':lane:' .. lane, 1, place)
    thin_out(tag, lane, removed)
  elseif kind == 'dlq' then
    removed = redis.call('XDEL', KEYS[3], place)
  elseif running[id] then
    removed = -1
  elseif kind == 'result' then
    removed = redis.call('DEL', tag .. ':result:' .. id)
  else
    forget(tag, id)
  end
  if removed == 1 and id ~= '' and not running[id] then
    if kind == 'result' or kind == 'dlq' then
      redis.call('DEL', tag .. ':progress:' .. id, tag .. ':log:' .. id, tag .. ':failure:' .. id)
    else
      forget(tag, id)
    end
  end
  done[#done + 1] = removed
end
return done
