--!member
--!lane
--!flow
-- cancel_flow.lua: ends every node of a flow that has not started; returns the indexes of those on their way or running.
-- KEYS stream   ARGV tag, flow, number of nodes
local running = {}
for index = 0, tonumber(ARGV[3]) - 1 do
  local state = redis.call('HGET', ARGV[1] .. ':flow:' .. ARGV[2], 's:' .. index)
  if state == 'waiting' then
    flow_step(ARGV[1], KEYS[1], ARGV[2], index, 'cancelled', '')
  elseif state == 'queued' then
    running[#running + 1] = index
  end
end
return running
