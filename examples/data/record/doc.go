// Command record makes github-day.ndjson, a day of events to replay, from the
// GitHub webhook payloads of the npm package @octokit/webhooks-examples:
//
//	go run ./examples/data/record -payloads package/api.github.com/index.json -out examples/data/github-day.ndjson
//
// The payloads are real and come from many different days. Each becomes one
// event: payload.go says in which scope and with which name and id, text.go and
// words.go make its line of text, extract.go keeps the part of it that matters.
// layout.go gives each event its time, from the table in day.go. The same
// package gives the same bytes: nothing here reads a clock or draws a number.
package main
