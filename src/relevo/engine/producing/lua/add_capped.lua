-- add_capped.lua: adds calls of one or more jobs, each call wholly or not at all, while the stream stays within its cap.
-- KEYS stream, sent   ARGV cap, write number, ttl of it, then for each call: jobs, (envelope, name) for each job
-- -> {length, '1' or '0' for each call as one string}. The same string is kept in `sent`, so that a producer whose
-- connection broke can learn what became of this write.
local length = redis.call('XLEN', KEYS[1])
local cap = tonumber(ARGV[1])
-- A write that comes late, after its producer had given it up and sent it again, finds its own number or a higher one.
local number, verdicts = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):?(.*)$')
if number and tonumber(number) >= tonumber(ARGV[2]) then return {length, verdicts} end
local taken, at = {}, 4
while at <= #ARGV do
  local jobs = tonumber(ARGV[at])
  at = at + 1
  local fits = length + jobs <= cap
  taken[#taken + 1] = fits and '1' or '0'
  if fits then
    length = length + jobs
    for job = at, at + 2 * jobs - 1, 2 do
      if ARGV[job + 1] == '' then
        redis.call('XADD', KEYS[1], '*', 'd', ARGV[job])
      else
        redis.call('XADD', KEYS[1], '*', 'd', ARGV[job], 'n', ARGV[job + 1])
      end
    end
  end
  at = at + 2 * jobs
end
local answer = table.concat(taken)
redis.call('SET', KEYS[2], ARGV[2] .. ':' .. answer, 'EX', ARGV[3])
return {length, answer}
