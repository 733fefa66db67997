-- Reads a page of the due index, ordered by time and then by name.
--
-- KEYS: head, due. ARGV: schema, now, how many, and the time and name to go on
-- behind, if any.
-- Answers: OK, then name and time of each.
local no = foreign(KEYS[1], ARGV[1])
if no then return no end
local now, count, behind, name = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

-- after compares as the index does, byte by byte; Lua would by the rules of a
-- language.
local function after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

local first = 0
if behind then
  local score = redis.call('ZSCORE', KEYS[2], name)
  if score and tonumber(score) == behind then
    first = redis.call('ZRANK', KEYS[2], name) + 1
  else -- it was written since
    first = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[4])
    local last = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[4])
    while first < last do
      local i = math.floor((first + last) / 2)
      if after(redis.call('ZRANGE', KEYS[2], i, i)[1], name) then last = i else first = i + 1 end
    end
  end
end
local page, out = redis.call('ZRANGE', KEYS[2], first, first + count - 1, 'WITHSCORES'), {'OK'}
for i = 1, #page, 2 do
  if tonumber(page[i + 1]) > now then break end
  out[#out + 1] = page[i]
  out[#out + 1] = page[i + 1]
end
return out
