// Package storetest checks that a store of webhook subscriptions keeps the promises
// of [mcpevents.SubscriptionStore], each in a case of its own that quotes the
// sentence. A store of one's own is tested by
//
//	func TestStore(t *testing.T) { storetest.Run(t, storetest.Store{New: newStore}) }
//
// A failing case says which promise broke and how; go test -run
// 'TestStore/due-order' runs one alone. Where a second process can hold the same
// data, set Store.Reopen too.
//
// No case depends on a clock: times are data, and a real one is read only to give up
// on a call that hangs. Each case gets a fresh, empty store.
//
// Read case.go first.
package storetest
