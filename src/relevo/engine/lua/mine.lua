-- mine: whether an entry is still pending for this consumer ('' asks nothing: the caller's lease cannot have lapsed).
local function mine(stream, group, owner, id)
  if owner == '' then return true end
  local pending = redis.call('XPENDING', stream, group, id, id, 1)
  return pending[1] ~= nil and pending[1][2] == owner
end
