// A sender on the CloudEvents SDK. Argument: the address that takes them.
import { CloudEvent, CONSTANTS, HTTP, Mode, emitterFor, httpTransport } from 'cloudevents'
import { say, serve } from './lines.mjs'

const sink = process.argv[2]

// make makes an event of its JSON form; bytes is base64 of binary data.
const make = ({ bytes, ...fields }) => new CloudEvent(bytes ? { ...fields, data: new Uint8Array(Buffer.from(bytes, 'base64')) } : fields)

// The SDK's own transport tells no status, so what it answers is its body.
const emit = (mode) => async ({ event }) => {
  const { body } = await emitterFor(httpTransport(sink), { mode })(make(event))
  return JSON.parse(body)
}

serve({
  binary: emit(Mode.BINARY),
  structured: emit(Mode.STRUCTURED),
  // The SDK reads batches and writes none: this is a list of what it writes, which it can read.
  async batch({ events }) {
    const message = {
      headers: { [CONSTANTS.HEADER_CONTENT_TYPE]: `${CONSTANTS.MIME_CE_BATCH}; charset=utf-8` },
      body: JSON.stringify(events.map(make)),
    }
    if (HTTP.toEvent(message).length !== events.length) throw new Error('the SDK does not read the batch')
    const { body } = await httpTransport(sink)(message)
    return JSON.parse(body)
  },
})
say({ ready: {} })
