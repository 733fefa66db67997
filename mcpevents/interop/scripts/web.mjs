// What the scripts that listen share: a handler of web requests on a port of the loopback address.
import { createServer } from 'node:http'
import { Readable } from 'node:stream'

// listen returns the address at which handle, a function from Request to Response, can be reached.
export function listen(handle) {
  const server = createServer(async (req, res) => {
    const gone = new AbortController()
    res.on('close', () => gone.abort())
    const headers = new Headers(Object.entries(req.headers).map(([name, value]) => [name, String(value)]))
    const bare = req.method === 'GET' || req.method === 'HEAD'
    const request = new Request(`http://${req.headers.host}${req.url}`, {
      method: req.method,
      headers,
      signal: gone.signal,
      ...(!bare && { body: Readable.toWeb(req), duplex: 'half' }),
    })
    const response = await handle(request)
    res.writeHead(response.status, Object.fromEntries(response.headers))
    if (response.body) Readable.fromWeb(response.body).on('error', () => res.destroy()).pipe(res)
    else res.end()
  })
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`)),
  )
}
