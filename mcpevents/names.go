package mcpevents

// Extension is the extension's identifier, its key among the extensions of the
// capabilities of a client and of a server.
const Extension = "io.modelcontextprotocol/events"

// The methods and notifications of the extension.
const (
	methodList        = "events/list"
	methodPoll        = "events/poll"
	methodStream      = "events/stream"
	methodSubscribe   = "events/subscribe"
	methodUnsubscribe = "events/unsubscribe"
	methodListen      = "subscriptions/listen" // of the base protocol; the extension adds to its filter

	noteActive       = "notifications/events/active"
	noteEvent        = "notifications/events/event"
	noteHeartbeat    = "notifications/events/heartbeat"
	noteError        = "notifications/events/error"
	noteTerminated   = "notifications/events/terminated"
	noteListChanged  = "notifications/events/list_changed"
	noteAcknowledged = "notifications/subscriptions/acknowledged"
)

// firstStateless is the protocol revision from which on requests stand alone,
// and the only one that the extension is defined for.
const firstStateless = "2026-07-28"

// complete is the resultType of every result of the extension.
const complete = "complete"

// A Mode is a way that events reach a client.
type Mode string

// The modes of delivery.
const (
	Poll    Mode = "poll"    // events/poll, a request for each batch
	Push    Mode = "push"    // events/stream, one long request
	Webhook Mode = "webhook" // events/subscribe, HTTP requests to the client
)
