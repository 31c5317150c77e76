--!mine
-- gate: takes one entry out of the group and out of the stream. True only for the one caller that did it.
local function gate(stream, group, id)
  if redis.call('XACK', stream, group, id) == 0 then return false end
  redis.call('XDEL', stream, id)
  return true
end

-- gate_all: the gate for every `step`th argument from `first` on; true or false for each. XACK counts, it does not tell which:
-- so one by one.
local function gate_all(stream, group, owner, first, step)
  local verdicts = {}
  for at = first, #ARGV, step do
    verdicts[#verdicts + 1] = mine(stream, group, owner, ARGV[at]) and gate(stream, group, ARGV[at])
  end
  return verdicts
end
