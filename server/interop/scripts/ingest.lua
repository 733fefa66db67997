-- Events for POST /v1/ingest, ten lines a body, no two with one id.
local threads = 0
function setup(thread)
  threads = threads + 1
  thread:set('number', threads)
end

function init()
  body, n = {}, 0
  wrk.method = 'POST'
  wrk.headers['Content-Type'] = 'application/x-ndjson'
end

function request()
  for i = 1, 10 do
    n = n + 1
    body[i] = string.format('{"scope":"load/%d/%d","id":"%d","name":"closing.now","text":"a line of a log"}', number, n % 7, n)
  end
  return wrk.format(nil, nil, nil, table.concat(body, '\n'))
end

function response(status, _, answer)
  if status ~= 200 or not answer:find('"accepted":10,"duplicates":0,"rejected":[]', 1, true) then
    io.stderr:write(status, ' ', answer, '\n')
  end
end

function done(summary)
  local e = summary.errors
  print(string.format('{"requests":%d,"errors":%d}', summary.requests, e.connect + e.read + e.write + e.status + e.timeout))
end
