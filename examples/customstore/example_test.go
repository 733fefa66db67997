package customstore_test

import (
	"context"
	"fmt"
	"os"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/examples/customstore"
)

func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "customstore")
	defer os.RemoveAll(dir)

	s, err := customstore.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Commit(context.Background(), []attend.Write{{Scope: "ops", Inputs: [][]byte{[]byte("disk full")}}})
	s.Close()

	s, _ = customstore.Open(dir) // after a restart
	defer s.Close()
	rec, _ := s.Load(context.Background(), "ops")
	fmt.Printf("%s\n", rec.Tail[0])
	// Output: disk full
}
