-- flow: what happens to a flow when one of its jobs has ended. A flow is a hash: for node i `n:i` its job (as in the delayed
-- set) while it waits, `s:i` its state, `w:i` parents it still waits for, `c:i` its children as "3f,4i,5c" (the letter says
-- what a failure of i means for them: fail, ignore, continue), `r:i` its result or the reason of its failure, `o:i` its notes.
-- `left` counts nodes that have not ended, `bad` those that failed, `ttl` is how long the hash is kept afterwards.
local function queue_node(tag, stream, key, index)
  local name, envelope = split(redis.call('HGET', key, 'n:' .. index))
  redis.call('HDEL', key, 'n:' .. index)
  redis.call('HSET', key, 's:' .. index, 'queued')
  redis.call('HSET', tag .. ':notes', id_of(envelope) or '', redis.call('HGET', key, 'o:' .. index))
  put(stream, name, envelope)
end

-- Ends node `index` as done, failed, skipped or cancelled, and everything that follows from it. Safe to repeat.
local function flow_step(tag, stream, flow, index, state, result)
  local key = tag .. ':flow:' .. flow
  local before = redis.call('HGET', key, 's:' .. index)
  if before ~= 'queued' and before ~= 'waiting' then return end
  local ended = {{index, state, result}}
  while #ended > 0 do
    local node = table.remove(ended)
    local at, how = node[1], node[2]
    redis.call('HSET', key, 's:' .. at, how, 'r:' .. at, node[3])
    redis.call('HDEL', key, 'n:' .. at)
    if how ~= 'done' then redis.call('HINCRBY', key, 'bad', 1) end
    local left = redis.call('HINCRBY', key, 'left', -1)
    for child, rule in string.gmatch(redis.call('HGET', key, 'c:' .. at) or '', '(%d+)(%a)') do
      local waits = redis.call('HGET', key, 's:' .. child) == 'waiting'
      if waits and how ~= 'done' and rule == 'f' then
        redis.call('HSET', key, 's:' .. child, 'ending')
        ended[#ended + 1] = {child, how == 'cancelled' and 'cancelled' or 'skipped', ''}
      elseif waits and redis.call('HINCRBY', key, 'w:' .. child, -1) == 0 then
        queue_node(tag, stream, key, child)
      end
    end
    if left == 0 then
      redis.call('HSET', key, 'state', redis.call('HGET', key, 'bad') and 'failed' or 'done')
      redis.call('EXPIRE', key, redis.call('HGET', key, 'ttl'))
    end
  end
end
