-- Writes very many events into a stream, as two events of each of `count` jobs: ARGV are the first job, how many, and how
-- many milliseconds lie between two jobs. The ids of entries and jobs tell the time at which they happened.
local first, count, step = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
local function base32(number, width)
  local text = ''
  for _ = 1, width do
    local digit = number % 32
    text = digits:sub(digit + 1, digit + 1) .. text
    number = (number - digit) / 32
  end
  return text
end
for number = first, first + count - 1 do
  local ms = string.format('%.0f', 1728000000000 + math.floor(number * step))
  local job = base32(tonumber(ms), 10) .. base32(number, 16)
  redis.call('XADD', KEYS[1], ms .. '-*',
    'e', 'active', 'id', job, 'ts', ms, 'n', 'work', 'attempt', '1')
  redis.call('XADD', KEYS[1], ms .. '-*',
    'e', 'completed', 'id', job, 'ts', ms, 'n', 'work', 'attempt', '1', 'duration_us', tostring(20000 + number % 977))
end
return count * 2
