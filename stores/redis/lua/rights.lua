-- Does what the other scripts do, on keys of its own, and answers with the
-- commands that the server refuses: found out in the middle of a commit, half
-- of it would have landed. First of all is one that needs no memory.
--
-- KEYS: a hash, an index, a stream, a list, a string.
local h, z, x, l, s = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
redis.pcall('UNLINK', h, z, x, l, s)
local out = {}
for _, c in ipairs({
  {'HSET', h, 'a', '1'}, {'HGET', h, 'a'}, {'HMGET', h, 'a'}, {'HGETALL', h}, {'HLEN', h}, {'HEXISTS', h, 'a'}, {'HDEL', h, 'b'},
  {'ZADD', z, '1', 'a'}, {'ZCARD', z}, {'ZSCORE', z, 'a'}, {'ZRANK', z, 'a'}, {'ZCOUNT', z, '0', '1'},
  {'ZRANGE', z, '0', '0'}, {'ZREM', z, 'a'},
  {'XADD', x, '1-0', 'a', '1'}, {'XLEN', x}, {'XRANGE', x, '-', '+'}, {'XREVRANGE', x, '+', '-'},
  {'XINFO', 'STREAM', x}, {'XTRIM', x, 'MINID', '1'},
  {'RPUSH', l, '1'}, {'LLEN', l}, {'LINDEX', l, '0'}, {'LRANGE', l, '0', '0'}, {'LPOP', l, '1'},
  {'SETRANGE', s, '0', 'a'}, {'GET', s}, {'OBJECT', 'ENCODING', s}, {'SET', s, 'a', 'PX', '1000'},
  {'EXISTS', h}, {'INFO', 'server'}, {'TIME'}, {'UNLINK', h, z, x, l, s},
}) do
  local r = redis.pcall(unpack(c))
  if type(r) == 'table' and r.err then
    out[#out + 1] = c[1]
    out[#out + 1] = r.err
  end
end
return out
