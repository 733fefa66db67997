-- Looks for a stream's newest row from before a moment, newest first, a piece
-- at a time.
--
-- KEYS: head, stream. ARGV: schema, the moment, where to begin.
-- Answers: OK, its position or nothing, where to go on or nothing.
local no = foreign(KEYS[1], ARGV[1])
if no then return no end
local cutoff, from = tonumber(ARGV[2]), ARGV[3]
local left, room = 1000, 1048576
while left > 0 and room > 0 do
  local rows = redis.call('XREVRANGE', KEYS[2], from, '-', 'COUNT', 16)
  for _, row in ipairs(rows) do
    if not ours(row) then return {'CORRUPT', 'log'} end
    if tonumber(row[2][6]) < cutoff then return {'OK', string.match(row[1], '^%d+'), ''} end
    left, room = left - 1, room - #row[2][8]
  end
  if #rows < 16 then return {'OK', '', ''} end
  from = '(' .. rows[#rows][1]
end
return {'OK', '', from}
