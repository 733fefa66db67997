package access_test

import (
	"fmt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

func ExampleNewTokens() {
	tokens, err := access.NewTokens([]access.Token{{
		Secret:    "an example, do not use it: 0123456789",
		Principal: access.Principal{Name: "ops agent", Scopes: []attend.Prefix{"ops"}, Read: true},
	}})
	fmt.Println(tokens, err)

	tokens, err = access.NewTokens([]access.Token{{
		Secret:    "an-example-do-not-use-it",
		Principal: access.Principal{Name: "ops agent", Scopes: []attend.Prefix{"ops"}, Read: true},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := tokens.Find("an-example-do-not-use-it")
	fmt.Println(p.Name, p.MayRead("ops/db"), p.MayRead("opsx"), p.MayIngest("ops/db"))
	// Output:
	// <nil> attend: token 1: secret: want 16 to 512 visible ASCII characters
	// ops agent true false false
}
