-- Takes tokens out of a bucket that fills by itself: as many of the wanted as there are.
-- KEYS[1] the bucket · ARGV rate a second, size, wanted
-- Returns {taken, milliseconds until there is one}
local rate, size, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(state[1]) or size, tonumber(state[2]) or now
tokens = math.min(size, tokens + math.max(0, now - at) * rate / 1000)
local taken = math.min(wanted, math.floor(tokens))
tokens = tokens - taken
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(size / rate * 1000) + 10000)
local wait = 0
if taken == 0 then
    wait = math.ceil((1 - tokens) * 1000 / rate)
end
return {taken, wait}
