-- gate: takes one entry out of the group and out of the stream. True only for the one caller that did it.
local function gate(stream, group, id)
  if redis.call('XACK', stream, group, id) == 0 then return false end
  redis.call('XDEL', stream, id)
  return true
end

-- mine: whether an entry is still pending for this consumer ('' asks nothing: the caller's lease cannot have lapsed).
local function mine(stream, group, owner, id)
  if owner == '' then return true end
  local pending = redis.call('XPENDING', stream, group, id, id, 1)
  return pending[1] ~= nil and pending[1][2] == owner
end
