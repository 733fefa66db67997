-- Reads a page.
function response(status, headers)
  if status ~= 200 or headers['Content-Type'] ~= 'application/json' then
    io.stderr:write(status, '\n')
  end
end

function done(summary)
  local e = summary.errors
  print(string.format('{"requests":%d,"errors":%d}', summary.requests, e.connect + e.read + e.write + e.status + e.timeout))
end
