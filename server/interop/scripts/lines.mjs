// What the other scripts share: they are driven by lines of JSON. A command comes in on a line of stdin, and what
// happens goes out on lines of stdout. The tests say what should have happened; the scripts know nothing of that.
import { createInterface } from 'node:readline'

export const say = (line) => process.stdout.write(JSON.stringify(line) + '\n')

// failure is what a script says of an error.
export const failure = (err) => ({ code: err?.code, message: String(err?.message ?? err), data: err?.data })

// serve runs the commands that come in, each by the entry of do that it names, side by side. What an entry returns is
// the command's result. The process ends with its stdin.
export function serve(commands) {
  const input = createInterface({ input: process.stdin, crlfDelay: Infinity })
  input.on('line', async (line) => {
    const command = JSON.parse(line)
    try {
      const result = await commands[command.do](command)
      say({ id: command.id, result: result ?? {} })
    } catch (err) {
      say({ id: command.id, error: failure(err) })
    }
  })
  input.on('close', () => process.exit(0))
}
