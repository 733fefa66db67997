// A client of @ai-sdk/mcp and its receiver of webhooks. Arguments: the server's URL, a bearer token, and whether to
// discover the revision of the protocol or to initialize. It says where its receiver listens; the callback that a subscription names may be another address that leads there.
import { createMCPClient, experimental_createMCPEventWebhook } from '@ai-sdk/mcp'
import { say, serve } from './lines.mjs'
import { listen } from './web.mjs'

const [url, token, mode] = process.argv.slice(2)

const kept = new Map()
const store = {
  get: async (key) => kept.get(key),
  getById: async (id) => [...kept.values()].find((s) => s.id === id),
  set: async (s) => void kept.set(s.key, s),
  update: async (key, patch) => void (kept.has(key) && kept.set(key, { ...kept.get(key), ...patch })),
  delete: async (key) => void kept.delete(key),
}

let refusals = 0 // how many deliveries are still to be refused
const receiver = experimental_createMCPEventWebhook({
  store,
  onEvent: async ({ subscription, event }) => {
    if (refusals > 0) {
      refusals--
      throw new Error('not yet')
    }
    say({ event, subscription })
  },
  onGap: async ({ gap, messageId }) => say({ gap, messageId }),
  onTerminated: async ({ termination, messageId }) => say({ termination, messageId }),
  onError: (err) => say({ warning: String(err) }),
})

const address = await listen(async (request) => {
  const [id, about] = [request.headers.get('webhook-id'), request.headers.get('x-mcp-subscription-id')]
  const response = await receiver(request)
  say({ answered: { status: response.status, id, about } })
  return response
})

const client = await createMCPClient({
  transport: { type: 'http', url, headers: { Authorization: `Bearer ${token}` } },
  protocolVersionDiscovery: mode === 'discover',
  experimental_events: { store },
})
say({ ready: { receiver: address, server: client.serverInfo, revision: client.initializeResult?.protocolVersion } })

const events = client.experimental_events
serve({
  list: ({ cursor }) => events.list({ params: { cursor } }),
  subscribe: ({ name, arguments: args, url, cursor, ttlMs }) =>
    events.subscribe({ name, arguments: args, delivery: { mode: 'webhook', url }, cursor, ttlMs }),
  refresh: ({ of }) => events.refresh({ id: of }),
  unsubscribe: ({ of }) => events.unsubscribe({ id: of }),
  kept: async () => ({ subscriptions: [...kept.values()].map(({ delivery, ...rest }) => rest) }),
  refuse: async ({ n }) => void (refusals = n),
  close: () => client.close(),
})
