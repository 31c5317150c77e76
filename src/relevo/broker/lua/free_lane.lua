--!member
--!lane
-- free_lane.lua: gives up the places in lanes of jobs that are gone without having been settled by us (removed by hand, or
-- finished by a worker that knows no lanes).   KEYS notes   ARGV tag, then for each: job id, lane   -> number freed
for at = 2, #ARGV, 2 do
  leave_lane(ARGV[1], ARGV[at + 1], ARGV[at])
  redis.call('HDEL', KEYS[1], ARGV[at])
end
return (#ARGV - 1) / 2
