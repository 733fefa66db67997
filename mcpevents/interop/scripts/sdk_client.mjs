// A client of the official TypeScript SDK. Arguments: the SDK's major version (1, 2); the protocol revision (a date,
// legacy, or auto); stdio and a command, or http, a URL and a bearer token.
import * as z from 'zod'
import { say, serve } from './lines.mjs'

const [sdk, revision, kind, ...target] = process.argv.slice(2)

const [{ Client }, { StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all(
  sdk === '1'
    ? [
        import('@modelcontextprotocol/sdk/client/index.js'),
        import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        import('@modelcontextprotocol/sdk/client/stdio.js'),
      ]
    : [
        import('@modelcontextprotocol/client'),
        import('@modelcontextprotocol/client'),
        import('@modelcontextprotocol/client/stdio'),
      ],
)

const transport =
  kind === 'stdio'
    ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'inherit' })
    : new StreamableHTTPClientTransport(new URL(target[0]), {
        requestInit: { headers: { Authorization: `Bearer ${target[1]}` } },
      })

const client = new Client(
  { name: 'interop', version: '1' },
  {
    capabilities: { extensions: { 'io.modelcontextprotocol/events': {} } },
    versionNegotiation: { mode: /^\d/.test(revision) ? { pin: revision } : revision },
  },
)

// What arrives, in the order in which it does: on the wire, and at the SDK's handler for notifications.
let negotiated // which the SDK's first major tells nobody over stdio
transport.onmessage = (message) => {
  negotiated ??= message.result?.protocolVersion
  say({ wire: message })
}
client.fallbackNotificationHandler = async (note) => say({ note })
client.onerror = (err) => say({ warning: String(err) })

await client.connect(transport)
say({
  ready: {
    revision: client.getNegotiatedProtocolVersion?.() ?? negotiated,
    capabilities: client.getServerCapabilities(),
  },
})

const running = new Map() // by the command's id
let subscription

serve({
  async request({ id, method, params }) {
    const stop = new AbortController()
    running.set(id, stop)
    try {
      return await client.request({ method, params }, z.looseObject({}), { signal: stop.signal, timeout: 600_000 })
    } finally {
      running.delete(id)
    }
  },
  abort: async ({ of }) => running.get(of)?.abort('enough'),
  async listen({ filter }) {
    subscription = await client.listen(filter)
    return { honored: subscription.honoredFilter }
  },
  unlisten: async () => subscription.close(),
  close: async () => client.close(),
})
