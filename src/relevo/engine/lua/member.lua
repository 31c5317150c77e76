-- member: reading a delayed member (`split`) and an envelope's job id (`id_of`).
local function starts_array(byte)
  return byte ~= nil and ((byte >= 144 and byte <= 159) or byte == 220 or byte == 221)
end

-- Today's layout has a 4-byte length before the name; the older, published one has a single byte.
local function split(member)
  if #member >= 4 then
    local a, b, c, d = string.byte(member, 1, 4)
    local size = a + b * 256 + c * 65536 + d * 16777216
    if size <= #member - 4 then return string.sub(member, 5, 4 + size), string.sub(member, 5 + size) end
  end
  local size = string.byte(member, 1)
  if size and starts_array(string.byte(member, size + 2)) then
    return string.sub(member, 2, 1 + size), string.sub(member, 2 + size)
  end
  return nil, nil
end

-- The id is the first element of the envelope's array. Read by hand: cmsgpack does not know msgpack's bytes type.
local function id_of(envelope)
  local first, kind, a, b = string.byte(envelope, 1, 4)
  if not starts_array(first) or first > 159 or not kind then return nil end
  if kind >= 160 and kind <= 191 then return string.sub(envelope, 3, 2 + kind - 160) end
  if kind == 217 and a then return string.sub(envelope, 4, 3 + a) end
  if kind == 218 and b then return string.sub(envelope, 5, 4 + a * 256 + b) end
  return nil
end
