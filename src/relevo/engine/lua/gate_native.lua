--!mine
-- gate: takes one entry out of the group and out of the stream. True only for the one caller that did it.
local function gate(stream, group, id)
  return redis.call('XACKDEL', stream, group, 'IDS', 1, id)[1] == 1
end

-- gate_all: the gate for every `step`th argument from `first` on, in one command; true or false for each.
local function gate_all(stream, group, owner, first, step)
  local ids, asked, verdicts = {}, {}, {}
  for at = first, #ARGV, step do
    asked[#asked + 1] = mine(stream, group, owner, ARGV[at])
    if asked[#asked] then ids[#ids + 1] = ARGV[at] end
  end
  local gone = #ids > 0 and redis.call('XACKDEL', stream, group, 'IDS', #ids, unpack(ids)) or {}
  local at = 0
  for number, ours in ipairs(asked) do
    if ours then at = at + 1 end
    verdicts[number] = ours and gone[at] == 1
  end
  return verdicts
end
