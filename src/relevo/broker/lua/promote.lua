-- promote.lua: moves due jobs from the delayed set into the stream, by the server's clock, while the lock is ours.
-- KEYS lock, delayed, stream, dlq, events   ARGV holder, limit, stream cap, dlq cap, events cap (0: no events)
-- -> {moved, left in the set, lag of the oldest in ms, ms until the next is due or -1}, or {-1} when the lock is not ours.
-- A member that is no job goes to the DLQ with its bytes: it must not stop the ones behind it. A full stream leaves the
-- rest where it is. Each member leaves the set right after it was written: an error can never repeat the earlier ones.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1} end

local function starts_array(byte)
  return byte ~= nil and ((byte >= 144 and byte <= 159) or byte == 220 or byte == 221)
end

-- Today's layout has a 4-byte length before the name; the older, published one has a single byte.
local function split(member)
  if #member >= 4 then
    local a, b, c, d = string.byte(member, 1, 4)
    local size = a + b * 256 + c * 65536 + d * 16777216
    if size <= #member - 4 then return string.sub(member, 5, 4 + size), string.sub(member, 5 + size) end
  end
  local size = string.byte(member, 1)
  if size and starts_array(string.byte(member, size + 2)) then
    return string.sub(member, 2, 1 + size), string.sub(member, 2 + size)
  end
  return nil, nil
end

-- The id is the first element of the envelope's array. Read by hand: cmsgpack does not know msgpack's bytes type.
local function id_of(envelope)
  local first, kind, a, b = string.byte(envelope, 1, 4)
  if not starts_array(first) or first > 159 or not kind then return nil end
  if kind >= 160 and kind <= 191 then return string.sub(envelope, 3, 2 + kind - 160) end
  if kind == 217 and a then return string.sub(envelope, 4, 3 + a) end
  if kind == 218 and b then return string.sub(envelope, 5, 4 + a * 256 + b) end
  return nil
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit = math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - redis.call('XLEN', KEYS[3]))
local index = string.sub(KEYS[2], 1, -string.len('delayed') - 1) .. 'didx:'
local moved, lag = 0, 0
if limit > 0 then
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #due, 2 do
    local member = due[at]
    if at == 1 then lag = now - tonumber(due[2]) end
    local name, envelope = split(member)
    if envelope and envelope ~= '' then
      local id = id_of(envelope)
      if ARGV[5] ~= '0' then
        if name == '' then
          redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[5], '*', 'e', 'waiting', 'id', id or '', 'ts', now)
        else
          redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[5], '*', 'e', 'waiting', 'id', id or '', 'ts', now, 'n', name)
        end
      end
      if name == '' then
        redis.call('XADD', KEYS[3], '*', 'd', envelope)
      else
        redis.call('XADD', KEYS[3], '*', 'd', envelope, 'n', name)
      end
      if id then redis.call('DEL', index .. id) end
    else
      redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'd', member, 'source_id', '', 'reason', 'malformed',
        'detail', 'a delayed member without a readable length prefix')
    end
    redis.call('ZREM', KEYS[2], member)
    moved = moved + 1
  end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local wait = -1
if first[2] then wait = math.max(0, math.ceil(tonumber(first[2]) - now)) end
return {moved, redis.call('ZCARD', KEYS[2]), lag, wait}
