package main

// The whole program, on real HTTP and real time.
func Example() {
	main()
	// Output:
	// event: ci.activity {"repository":"attend","what":"build","text":"build 7 has started"}
	// event: ci.activity {"repository":"attend","what":"log","text":"compile: ok"}
	// event: ci.activity {"repository":"attend","what":"log","text":"vet: ok"}
	// event: ci.activity {"repository":"attend","what":"test","text":"TestSettle failed"}
	// decision: queue, settled by closing
	//   | ci.activity {"repository":"attend","what":"build","text":"build 7 has started"}
	//   | ci.activity {"repository":"attend","what":"log","text":"compile: ok"}
	//   | ci.activity {"repository":"attend","what":"log","text":"vet: ok"}
	//   | ci.activity {"repository":"attend","what":"test","text":"TestSettle failed"}
	//   | Attend to this when your present turn has ended.
	// event: ci.activity {"repository":"attend","what":"comment","text":"ann: can somebody look at TestSettle?"}
	// decision: interrupt, settled by flush
	//   | ci.activity {"repository":"attend","what":"comment","text":"ann: can somebody look at TestSettle?"}
	//   | This needs you now: stop and attend to it.
	// event: ci.activity {"repository":"attend","what":"log","text":"build 8: TestSettle passes"}
	// event: ci.activity {"repository":"attend","what":"deploy","text":"build 8 is live"}
	// decision: queue, settled by closing
	//   | ci.activity {"repository":"attend","what":"log","text":"build 8: TestSettle passes"}
	//   | ci.activity {"repository":"attend","what":"deploy","text":"build 8 is live"}
	//   | Attend to this when your present turn has ended.
}
