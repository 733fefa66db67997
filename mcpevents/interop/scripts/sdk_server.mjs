// A server of the official TypeScript SDK whose raw request handlers and notifications carry events/*. Arguments: the
// SDK's major version (1, 2), stdio or http. Over http it says on a line of stdout where it listens, and ends with its
// stdin.
//
// Its type "script" does what the subscription's arguments say, a step after the other, and "fixed" has the events 4
// to 10 of a log whose first three are gone. What became of the streams is what "ended" is polled for.
import { createServer } from 'node:http'
import { randomUUID } from 'node:crypto'
import * as z from 'zod'

const [sdk, kind] = process.argv.slice(2)
const EVENTS = 'io.modelcontextprotocol/events'
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'
const any = z.looseObject({})

const oldest = 4
const newest = 10
const ended = []

const occurrence = (name, n) => ({
  eventId: `${name}-${n}`,
  name,
  timestamp: new Date(1_793_697_300_000 + n).toISOString(),
  data: { n },
})

const refusal = (code, message, data) => Object.assign(new Error(message), { code, data })

const object = { type: 'object' }
const types = [
  { name: 'fixed', description: 'a log', delivery: ['poll', 'push'], inputSchema: object, payloadSchema: object },
  { name: 'ended', description: 'streams', delivery: ['poll'], inputSchema: object, payloadSchema: object },
  { name: 'script', description: 'as told', delivery: ['push', 'poll', 'carrier-pigeon'], inputSchema: object, payloadSchema: object, colour: 'green' },
]

// list has a type a page.
function list({ cursor }) {
  const page = Number(cursor ?? 0)
  if (!(page < types.length)) throw refusal(-32602, 'InvalidParams')
  return { events: [types[page]], ...(page + 1 < types.length && { nextCursor: String(page + 1) }) }
}

function poll({ name, arguments: args = {}, cursor, maxEvents = 3 }) {
  if (name === 'ended') return { events: ended.map((_, i) => ({ ...occurrence(name, i), data: ended[i] })), cursor: 'e', nextPollMs: 10 }
  if (name === 'script' && args.poll) throw refusal(...args.poll)
  if (name !== 'fixed' && name !== 'script') throw refusal(-32023, 'NotFound', { kind: 'event' })
  if (cursor == null) return { events: [], cursor: `at-${newest}`, truncated: false, hasMore: false, nextPollMs: 10 }
  const asked = Number(cursor.replace('at-', ''))
  const after = Math.max(asked, oldest - 1)
  const last = Math.min(after + maxEvents, newest)
  const events = []
  for (let n = after + 1; n <= last; n++) events.push(occurrence(name, n))
  return { events, cursor: `at-${last}`, truncated: asked < after, hasMore: last < newest, nextPollMs: 10 }
}

// stream goes through the steps: a number is an event, an array an error, a word what it says.
async function stream({ name, arguments: args = {}, cursor }, { id, notify, signal }) {
  if (args.refuse) throw refusal(...args.refuse)
  const tell = (what, params) => notify({ method: `notifications/events/${what}`, params: { ...params, _meta: { [SUBSCRIPTION]: id } } })
  const note = (why) => ended.push({ note: args.note ?? '', why })
  let at = cursor ?? `at-${newest}`
  for (const step of args.steps ?? ['active', 'wait']) {
    if (typeof step === 'number') {
      at = `at-${step}`
      await tell('event', { ...occurrence(name, step), cursor: at })
    } else if (Array.isArray(step)) {
      const [code, message, data] = step
      await tell('error', { error: { code, message, data } })
    } else if (step === 'active') {
      await tell('active', { cursor: at, truncated: false })
    } else if (step === 'gap') {
      at = 'at-90'
      await tell('active', { cursor: at, truncated: true })
    } else if (step === 'heartbeat') {
      await tell('heartbeat', { cursor: at })
    } else if (step === 'stranger') {
      await tell('nobody_knows', { cursor: at, what: [1, 2, 3] })
    } else if (step === 'terminated') {
      await tell('terminated', { error: { code: -32024, message: 'Forbidden', data: { reason: 'grant withdrawn' } } })
    } else if (step === 'wait') {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      note('cancelled')
    }
  }
  return { _meta: { [SUBSCRIPTION]: id } }
}

// The first major stands for servers of before SEP-3415, which have the capability elsewhere.
const capabilities = { tools: {}, ...(sdk === '1' ? { events: {} } : { extensions: { [EVENTS]: {} } }) }
const info = { name: 'interop', version: '1' }

async function first() {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js')
  return () => {
    const server = new Server(info, { capabilities })
    const on = (method, handle) =>
      server.setRequestHandler(z.object({ method: z.literal(method), params: any.optional() }), (request, extra) =>
        handle(request.params ?? {}, { id: extra.requestId, notify: extra.sendNotification, signal: extra.signal }),
      )
    on('events/list', list)
    on('events/poll', poll)
    on('events/stream', stream)
    return server
  }
}

async function second() {
  const { Server } = await import('@modelcontextprotocol/server')
  return () => {
    const server = new Server(info, { capabilities })
    const on = (method, handle) =>
      server.setRequestHandler(method, { params: any }, (params, { mcpReq }) =>
        handle(params, { id: mcpReq.id, notify: mcpReq.notify, signal: mcpReq.signal }),
      )
    on('events/list', list)
    on('events/poll', poll)
    on('events/stream', stream)
    return server
  }
}

const make = await (sdk === '1' ? first() : second())

async function overStdio() {
  if (sdk === '1') {
    const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
    await make().connect(new StdioServerTransport())
    process.stdin.on('end', () => process.exit(0))
  } else {
    const { serveStdio } = await import('@modelcontextprotocol/server/stdio')
    serveStdio(make)
  }
}

async function overHTTP() {
  let handle
  if (sdk === '1') {
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
    const sessions = new Map()
    handle = async (req, res) => {
      let transport = sessions.get(req.headers['mcp-session-id'])
      if (!transport) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (id) => sessions.set(id, transport),
        })
        await make().connect(transport)
      }
      await transport.handleRequest(req, res)
    }
  } else {
    const { createMcpHandler } = await import('@modelcontextprotocol/server')
    const { toNodeHandler } = await import('@modelcontextprotocol/node')
    handle = toNodeHandler(createMcpHandler(make))
  }
  const server = createServer((req, res) => void handle(req, res))
  server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ ready: { url: `http://127.0.0.1:${server.address().port}/mcp` } })))
  process.stdin.on('end', () => process.exit(0)).resume()
}

await (kind === 'stdio' ? overStdio() : overHTTP())
