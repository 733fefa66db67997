package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/attend-go/attend/cmd/attend/internal/client"
)

func ExampleNew() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"path":"`+r.URL.Path+`"}`)
	}))
	defer s.Close()
	c, err := client.New(s.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := c.Get(context.Background(), "/healthz", nil)
	fmt.Println(string(b), err)
	// Output: {"path":"/healthz"} <nil>
}
