package ingest_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
)

func ExampleNew() {
	e, err := engine.New(engine.Config{
		Store: memory.New(), Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
		Kind: func(attend.Event) attend.Kind { return attend.KindConsequence },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in, err := ingest.New(ingest.Config{Engine: e})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "/v1/ingest", strings.NewReader(`{"scope":"ops/db","id":"1","name":"disk.full"}
{"scope":"ops/db","name":"disk.full"}
{"scope":"ops/db","flush":true}
`))
	r.Header.Set("Content-Type", "application/x-ndjson")
	r = r.WithContext(access.With(r.Context(), access.Anyone())) // the server's front does this
	w := httptest.NewRecorder()
	in.Bodies().ServeHTTP(w, r)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	// Output:
	// 200 {"accepted":2,"duplicates":0,"rejected":[{"line":2,"scope":"ops/db","error":"id: want 1 to 256 bytes"}]}
}
