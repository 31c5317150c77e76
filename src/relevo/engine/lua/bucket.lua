-- bucket: a bucket of `size` tokens that fills at `rate` in each `ms`. A hash: `t` tokens, `ts` when they were counted.
-- Takes as many of the wanted as there are; how many, and the ms until there is one.
local function bucket_take(key, wanted, size, rate, ms, now)
  local kept = redis.call('HMGET', key, 't', 'ts')
  local tokens, since = tonumber(kept[1] or size), tonumber(kept[2] or now)
  tokens = math.min(size, tokens + math.max(0, now - since) * rate / ms)
  local taken, wait = math.min(wanted, math.floor(tokens + 1e-6)), 0 -- sums of parts may fall short by a hair
  if taken <= 0 then taken, wait = 0, math.max(1, math.ceil((1 - tokens) * ms / rate)) end
  redis.call('HSET', key, 't', tostring(tokens - taken), 'ts', now)
  redis.call('PEXPIRE', key, math.ceil(ms * math.max(2, 1 + size / rate)))
  return taken, wait
end
