-- spread_events.lua: spreads packed rows of the outbox out into the stream of their queue, each row once however often it comes.
-- A server that refuses (no memory left) does so at the first write, and nothing was done.
-- A mark is forgotten when its row is gone from the outbox and whoever may have read it before has sent it or given up.
-- KEYS events, relayed
-- ARGV slug of the queue, most events kept, number of the first row in the outbox, marks are kept (ms), lives (ms),
--      mark of a row, its packed events of this queue, mark, events, ...
-- -> how many rows were new
local stream, relayed, slug = KEYS[1], KEYS[2], ARGV[1]

local function text(value)
  if type(value) == 'number' then
    return string.format('%.0f', value)
  end
  return value
end

local rows = {}
for at = 6, #ARGV, 2 do
  if not redis.call('ZSCORE', relayed, ARGV[at]) then
    rows[#rows + 1] = { mark = ARGV[at], number = string.match(ARGV[at], '^%d+'), packed = cjson.decode(ARGV[at + 1]) }
  end
end

-- Of packed events: queue, place, count, event, ts, ids, types, correlations, {name, values, name, values, ...}
local function spread(number, packed)
  local place, count, ids, types, correlations, extras = packed[2], packed[3], packed[6], packed[7], packed[8], packed[9]
  local entry = {
    'XADD', stream, '*', 'e', packed[4], 'id', '', 'ts', text(packed[5]), 'n', types, 'correlation_id', correlations,
    'queue', slug, 'seq', '',
  }
  local varied = {}
  for at = 1, #extras, 2 do
    entry[#entry + 1] = extras[at]
    local values = extras[at + 1]
    if type(values) == 'table' then
      varied[#entry + 1] = values
      entry[#entry + 1] = ''
    else
      entry[#entry + 1] = text(values)
    end
  end
  if type(types) == 'table' then varied[11] = types end
  if correlations == cjson.null then varied[13] = ids end
  if type(correlations) == 'table' then varied[13] = correlations end
  for at = 1, count do
    entry[7] = ids[at]
    entry[17] = number .. '-' .. text(place + at - 1)
    for field, values in pairs(varied) do
      entry[field] = text(values[at])
    end
    redis.call(unpack(entry))
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, row in ipairs(rows) do
  for _, packed in ipairs(row.packed) do
    spread(row.number, packed)
  end
  redis.call('ZADD', relayed, now, row.mark)
end
redis.call('XTRIM', stream, 'MAXLEN', '~', ARGV[2])

local gone = {}
local first = tonumber(ARGV[3])
for _, mark in ipairs(redis.call('ZRANGEBYSCORE', relayed, '-inf', now - ARGV[4], 'LIMIT', 0, 2000)) do
  if tonumber(string.match(mark, '^%d+')) < first then
    gone[#gone + 1] = mark
  end
end
if #gone > 0 then
  redis.call('ZREM', relayed, unpack(gone))
end
redis.call('PEXPIRE', relayed, ARGV[5])
return #rows
