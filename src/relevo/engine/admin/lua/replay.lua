-- replay.lua: moves dead letters back into the stream, each only if it is still there, as long as the stream has room.
-- KEYS dlq, stream   ARGV cap, then for each: dlq entry id, envelope, name   -> {number moved, room left}
local room = tonumber(ARGV[1]) - redis.call('XLEN', KEYS[2])
local moved = 0
for at = 2, #ARGV, 3 do
  if moved >= room then break end
  if redis.call('XDEL', KEYS[1], ARGV[at]) == 1 then
    if ARGV[at + 2] == '' then
      redis.call('XADD', KEYS[2], '*', 'd', ARGV[at + 1])
    else
      redis.call('XADD', KEYS[2], '*', 'd', ARGV[at + 1], 'n', ARGV[at + 2])
    end
    moved = moved + 1
  end
end
return {moved, room - moved}
