-- cap: how many jobs the stream may hold: `most`, or (`asks` is '1') what the queue's producers said, if they said anything.
local function stream_cap(tag, most, asks)
  return tonumber(asks == '1' and redis.call('GET', tag .. ':cap') or most) or tonumber(most)
end
