--!member
--!lane
--!flow
-- start_flow.lua: stores a flow and queues the jobs that wait for nobody.
-- KEYS flow, stream   ARGV tag, cap, ttl s, keys of the nodes (a line each), number of nodes, then
--   for each: job (as in the delayed set), parents, children, notes
-- -> 1 started, 0 it was started before (the same call again), -1 full
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('XLEN', KEYS[2]) + laned(ARGV[1]) + tonumber(ARGV[5]) > tonumber(ARGV[2]) then return -1 end
redis.call('HSET', KEYS[1], 'left', ARGV[5], 'state', 'running', 'ttl', ARGV[3], 'keys', ARGV[4])
local roots = {}
for index = 0, tonumber(ARGV[5]) - 1 do
  local at = 6 + index * 4
  redis.call('HSET', KEYS[1], 'n:' .. index, ARGV[at], 's:' .. index, 'waiting', 'w:' .. index, ARGV[at + 1],
    'c:' .. index, ARGV[at + 2], 'o:' .. index, ARGV[at + 3])
  if ARGV[at + 1] == '0' then roots[#roots + 1] = index end
end
for _, index in ipairs(roots) do queue_node(ARGV[1], KEYS[2], KEYS[1], index) end
return 1
