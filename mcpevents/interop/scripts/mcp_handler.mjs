// A server of mcp-handler with its Events methods, webhooks alone. What it leaves to its user is here: a store in
// memory, and deliveries signed by standardwebhooks, each on command. Whoever has a bearer token is who it says.
import { createMcpHandler, experimental_registerMcpEvents, withMcpAuth } from 'mcp-handler'
import { fromJsonSchema } from '@modelcontextprotocol/server'
import { Webhook } from 'standardwebhooks'
import { say, serve } from './lines.mjs'
import { listen } from './web.mjs'

const kept = new Map() // by the subscription's id
let sent = 0

// post delivers a body once and returns the status and the body of the answer.
async function post({ id, url, secret }, name, body, at = new Date()) {
  const text = JSON.stringify(body)
  const response = await fetch(url, {
    method: 'POST',
    redirect: 'error',
    headers: {
      'Content-Type': 'application/json',
      'webhook-id': name,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(name, at, text),
      'X-MCP-Subscription-Id': id,
    },
    body: text,
  })
  return { status: response.status, text: await response.text() }
}

const subscriptions = {
  prepare: async () => `operation-${++sent}`,
  async upsert(subscription) {
    const old = kept.get(subscription.id)
    kept.set(subscription.id, subscription)
    say({ upserted: { ...subscription, secret: undefined, rotated: old ? old.secret !== subscription.secret : undefined } })
    return {
      cursor: subscription.cursor ?? 'w-0',
      truncated: false,
      ...(old && { deliveryStatus: { active: true, lastDeliveryAt: new Date().toISOString(), lastError: null } }),
    }
  },
  remove: async ({ id }) => kept.delete(id),
}

const delivery = {
  async verifyEndpoint(target) {
    const challenge = `nonce-${++sent}`
    try {
      const { status, text } = await post(target, `msg_verification_${sent}`, { type: 'verification', challenge })
      const echoed = status >= 200 && status < 300 && JSON.parse(text).challenge === challenge
      return echoed ? { verified: true } : { verified: false, reason: 'challenge_failed' }
    } catch {
      return { verified: false, reason: 'connection_refused' }
    }
  },
}

const event = (name) => ({
  name,
  description: `${name}, by webhook`,
  inputSchema: fromJsonSchema({ type: 'object', properties: { repo: { type: 'string' } } }),
  payloadSchema: fromJsonSchema({ type: 'object' }),
  authorize: (args) => args.repo !== 'secret',
})

const handler = createMcpHandler(
  (server) =>
    experimental_registerMcpEvents(server, {
      getPrincipal: (auth) => auth.clientId,
      events: [event('build.finished'), event('build.started')],
      subscriptions,
      delivery,
      ttl: { minMs: 1000, defaultMs: 60_000, maxMs: 3_600_000 },
    }),
  { serverInfo: { name: 'mcp-handler', version: '1' } },
)

const address = await listen(
  withMcpAuth(handler, async (_, token) => token && { token, clientId: token, scopes: [] }),
)
say({ ready: { url: `${address}/mcp` } })

serve({
  deliver: ({ to, name, body, ago = 0, forged }) =>
    post({ ...kept.get(to), ...(forged && { secret: forged }) }, name, body, new Date(Date.now() - ago * 1000)),
  kept: async () => ({ ids: [...kept.keys()] }),
})
