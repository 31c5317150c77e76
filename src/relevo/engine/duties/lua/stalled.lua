--!gate
-- stalled.lua: dead-letters entries that took down every worker they were given to, by the lock's holder only.
-- KEYS lock, stream, dlq   ARGV holder, group, idle ms, deliveries allowed, limit, dlq cap
-- -> {abandoned entries seen, {{entry id, deliveries, envelope, name} of each one moved}}, or {-1} without the lock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-1} end
redis.call('XLEN', KEYS[3]) -- a key of another type fails here, before anything is taken out of the group
local pending = redis.call('XPENDING', KEYS[2], ARGV[2], 'IDLE', ARGV[3], '-', '+', ARGV[5])
local FRAME = '\147\172relevo-frame\1' -- how a frame begins: wire/frame.py
local moved = {}
for _, each in ipairs(pending) do
  local id, deliveries = each[1], each[4]
  local entry, fields = nil, {}
  if deliveries >= tonumber(ARGV[4]) then
    entry = redis.call('XRANGE', KEYS[2], id, id)[1]
    if entry then
      for at = 1, #entry[2], 2 do fields[entry[2][at]] = entry[2][at + 1] end
    end
  end
  -- A frame of many jobs is left to the next reader, which takes it apart: most of its jobs have killed nobody.
  if deliveries >= tonumber(ARGV[4]) and string.sub(fields['d'] or '', 1, #FRAME) ~= FRAME then
    if gate(KEYS[2], ARGV[2], id) and entry then
      local letter = {'source_id', id, 'reason', 'stalled', 'detail', 'its worker died ' .. deliveries .. ' times'}
      if fields['n'] then
        redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'd', fields['d'] or '', 'n', fields['n'], unpack(letter))
      else
        redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'd', fields['d'] or '', unpack(letter))
      end
    end
    moved[#moved + 1] = {id, deliveries, fields['d'] or '', fields['n'] or ''}
  end
end
return {#pending, moved}
