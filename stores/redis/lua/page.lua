-- Reads the head of a log, and rows of one or more streams in the order of
-- their positions. A narrowed read takes the positions from lists.
--
-- KEYS: head, the streams, then a list for each where the read is narrowed, and
-- the mark.
-- ARGV: schema, number of streams, 1 if narrowed, read behind this position,
-- at most so many rows, and about so many bytes, 1 if bodies are wanted, then
-- names of marks in the head.
-- Answers: OK, epoch, newest, 1 if there is more, rows in the streams, the
-- marks, then for each row: its stream, position, scope, id, time, body.
local m, no = head(KEYS[1], ARGV[1])
if no then return no end
local n, narrowed, behind = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4]
local left, room, bodies = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local chunk = math.min(16, left + 1)

local out, count = {'OK', m[3], m[4], '0', '0'}, 0
for i = 8, #ARGV do out[#out + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or '0' end

-- place is how many entries of a list are at or before p. It looks from the
-- end, where most readers are.
local function place(list, p)
  local lo, hi, step = 0, redis.call('LLEN', list), 1
  if p == 0 then return 0 end
  while lo < hi do
    local i = math.max(hi - step, math.floor((lo + hi) / 2))
    if tonumber(redis.call('LINDEX', list, i)) > p then
      hi, step = i, step * 2
    else
      lo = i + 1
    end
  end
  return lo
end

-- turn goes on to a source's next row, whose position is in f.position then:
-- nil at the end.
local function turn(f)
  f.i = f.i + 1
  if f.i > #f.buffer then
    f.position = nil
    if f.last then return end
    if narrowed then
      f.buffer = redis.call('LRANGE', f.list, f.next, f.next + chunk - 1)
      f.next = f.next + chunk
    else
      f.buffer = redis.call('XRANGE', f.stream, f.next, '+', 'COUNT', chunk)
      if #f.buffer > 0 then f.next = '(' .. f.buffer[#f.buffer][1] end
    end
    f.i, f.last = 1, #f.buffer < chunk
    if #f.buffer == 0 then return end
  end
  local x = f.buffer[f.i]
  f.position = tonumber(narrowed and x or string.match(x[1], '^%d+'))
end

local sources = {}
for i = 1, n do
  local f = {number = i, stream = KEYS[1 + i], buffer = {}, i = 0}
  count = count + redis.call('XLEN', f.stream)
  if narrowed then
    f.list = KEYS[1 + n + i]
    f.next = place(f.list, tonumber(behind))
  else
    f.next = '(' .. behind .. '-0'
  end
  if left > 0 then turn(f) end
  sources[i] = f
end
out[5] = text(count)

while true do
  local f
  for _, s in ipairs(sources) do
    if s.position and (not f or s.position < f.position) then f = s end
  end
  if not f then break end
  if left <= 0 or room <= 0 then
    out[4] = '1'
    break
  end
  local row = f.buffer[f.i]
  if narrowed then
    row = redis.call('XRANGE', f.stream, row, row)[1]
    if not row then return {'CORRUPT', 'list'} end
  end
  if not ours(row) then return {'CORRUPT', 'log'} end
  local v, o = row[2], #out
  out[o + 1], out[o + 2], out[o + 3], out[o + 4], out[o + 5] = text(f.number), text(f.position), v[2], v[4], v[6]
  out[o + 6] = bodies and v[8] or ''
  left, room = left - 1, room - #v[8] - #v[2] - #v[4]
  turn(f)
end
return out
