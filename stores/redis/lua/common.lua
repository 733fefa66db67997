-- What every script begins with. Positions are numbers of Lua, exact to 2^53;
-- versions are text, compared and never reckoned with.

-- life names the server's process.
local function life() return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') end

-- The mark is the last key of every script that reads the head. It is made of the
-- life that the head names, and shows where the data is from:
--   * Writing it is told to the server's own append-only file, and to no replica.
--   * SETRANGE makes a string whose encoding is raw, also when the file is read.
--     A number that came in a snapshot, as a replica gets it or a rewritten file
--     begins with it, has the encoding int: snapshots hold one of 32 bits as
--     such. Other short texts come back raw in some servers, under a long key.
-- So a mark that is raw was written in this process, and no other server's data
-- came over it since; or this process has read it in the very file of the server
-- that wrote it.
local mark = KEYS[#KEYS]

-- signature is a life's mark: ten digits, below 2^31.
local function signature(run) return string.format('%.0f', 1000000000 + (tonumber(string.sub(run, 1, 7), 16) or 0)) end

local function raw() return redis.call('OBJECT', 'ENCODING', mark) == 'raw' end

-- sign writes the mark, and returns whether no replica is told.
local function sign(run)
  local alone = redis.set_repl and pcall(redis.set_repl, redis.REPL_AOF)
  redis.pcall('SETRANGE', mark, '0', signature(run))
  if alone then redis.set_repl(redis.REPL_ALL) end
  return alone
end

-- foreign is what to answer where the head is of another schema, nil where not.
local function foreign(key, schema)
  local stored = redis.call('HGET', key, 'schema')
  if stored ~= schema then return {'SCHEMA', stored or ''} end
end

-- head reads the log's head: schema, life, epoch, newest, base, sync. Where it
-- is that of another schema or life it returns what to answer instead.
local function head(key, schema)
  local m = redis.call('HMGET', key, 'schema', 'life', 'epoch', 'newest', 'base', 'sync')
  if m[1] ~= schema then return nil, {'SCHEMA', m[1] or ''} end
  if m[2] ~= life() or not raw() then return nil, {'LIFE'} end
  if not (m[3] and tonumber(m[4]) and tonumber(m[5])) then return nil, {'CORRUPT', 'head'} end
  return m
end

-- resign puts the mark into a file that was rewritten meanwhile.
local function resign(m)
  if m[6] == 'always' then sign(m[2]) end
end

local function text(position) return string.format('%.0f', position) end

-- full: positions beyond this one are not exact.
local full = 9007199254740000

-- sound is false where a key holds another kind of value than ours, which a
-- write would fail at when others have landed.
local function sound(command, key) return type(redis.pcall(command, key)) == 'number' end

-- ours is false for an entry of a stream that is none of our rows: scope, id,
-- time and body, each behind its field.
local function ours(entry) return #entry[2] == 8 and tonumber(entry[2][6]) end
