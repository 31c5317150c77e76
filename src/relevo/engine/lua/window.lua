-- window: a log of starts that slides, so that no `ms` ever see more starts than allowed, wherever one begins to count.
-- A sorted set: a member `id:count` for the starts of one call, by their time, and the member `total` with their sum as its
-- score, so that nobody has to add them up. Times are beyond 10^12 and sums are not: `total` stands first.
local EARLIEST = 1000000000000
local PRUNED = 1000 -- starts forgotten in one call at most: the rest only seems to be there, and the next call sees to it

-- How many may start now, and the ms until one more might.
local function window_room(key, most, ms, now)
  local gone, sum = redis.call('ZRANGEBYSCORE', key, EARLIEST, now - ms, 'LIMIT', 0, PRUNED), 0
  for _, member in ipairs(gone) do sum = sum + tonumber(string.match(member, '%d+$')) end
  if #gone > 0 then
    redis.call('ZREMRANGEBYRANK', key, 1, #gone)
    redis.call('ZINCRBY', key, -sum, 'total')
  end
  local room = most - tonumber(redis.call('ZSCORE', key, 'total') or '0')
  if room > 0 then return room, 0 end
  local first = redis.call('ZRANGE', key, 1, 1, 'WITHSCORES')
  return 0, math.max(1, math.min(tonumber(first[2] or now), now) + ms - now)
end

-- Writes starts down; the member they have there.
local function window_take(key, id, count, at, lives_ms)
  while redis.call('ZADD', key, 'NX', at, id .. ':' .. count) == 0 do id = id .. '+' end
  redis.call('ZINCRBY', key, count, 'total')
  redis.call('PEXPIRE', key, lives_ms)
  return id .. ':' .. count
end
