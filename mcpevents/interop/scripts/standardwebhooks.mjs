// The reference library of Standard Webhooks for JavaScript: signs, and verifies.
import { Webhook } from 'standardwebhooks'
import { say, serve } from './lines.mjs'

serve({
  sign: async ({ secret, name, at, body }) => ({
    signature: new Webhook(secret).sign(name, new Date(at * 1000), body),
  }),
  verify: async ({ secret, headers, body }) => ({ payload: new Webhook(secret).verify(body, headers) }),
})
say({ ready: {} })
