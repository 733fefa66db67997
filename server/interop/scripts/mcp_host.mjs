// An agent host on the official TypeScript SDK. Arguments: the SDK's major version (1, 2); the protocol revision (a date,
// or legacy); a URL and a bearer token.
import * as z from 'zod'
import { say, serve } from './lines.mjs'

const [sdk, revision, url, token] = process.argv.slice(2)

const [{ Client }, { StreamableHTTPClientTransport }] = await Promise.all(
  sdk === '1'
    ? [import('@modelcontextprotocol/sdk/client/index.js'), import('@modelcontextprotocol/sdk/client/streamableHttp.js')]
    : [import('@modelcontextprotocol/client'), import('@modelcontextprotocol/client')],
)

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
})
const client = new Client(
  { name: 'interop', version: '1' },
  {
    capabilities: { extensions: { 'io.modelcontextprotocol/events': {} } },
    versionNegotiation: { mode: /^\d/.test(revision) ? { pin: revision } : revision },
  },
)

// What arrives of Events, in the order in which it does.
let negotiated
transport.onmessage = (message) => {
  negotiated ??= message.result?.protocolVersion
  if (message.method?.startsWith('notifications/events/')) say({ wire: message })
}
client.fallbackNotificationHandler = async () => {}
client.onerror = (err) => say({ warning: String(err) })

await client.connect(transport)
say({
  ready: {
    revision: client.getNegotiatedProtocolVersion?.() ?? negotiated,
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
  },
})

const running = new Map() // by the command's id

serve({
  tools: async () => client.listTools(),
  // callTool checks the structured content against the tool's output schema.
  async tool({ id, name, args }) {
    const stop = new AbortController()
    running.set(id, stop)
    const options = { signal: stop.signal, timeout: 120_000 }
    return sdk === '1'
      ? client.callTool({ name, arguments: args }, undefined, options)
      : client.callTool({ name, arguments: args }, options)
  },
  async request({ id, method, params }) {
    const stop = new AbortController()
    running.set(id, stop)
    return client.request({ method, params }, z.looseObject({}), { signal: stop.signal, timeout: 600_000 })
  },
  abort: async ({ of }) => running.get(of)?.abort('enough'),
  close: async () => client.close(),
})
