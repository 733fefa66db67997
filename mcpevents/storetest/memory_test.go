package storetest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpevents/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Store{
		New:    func(testing.TB) mcpevents.SubscriptionStore { return mcpevents.NewMemorySubscriptions() },
		Reopen: func(_ testing.TB, s mcpevents.SubscriptionStore) mcpevents.SubscriptionStore { return s },
	})
}

// Each rule is a sentence of the contract, or a part of one.
func TestRulesAreTheContracts(t *testing.T) {
	text, err := os.ReadFile("../subscriptionstore.go")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " ")
	seen := map[string]bool{}
	for _, c := range storetest.Cases() {
		if !strings.Contains(plain, c.Rule) {
			t.Errorf("%s: the contract does not say %q", c.Name, c.Rule)
		}
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
	}
}
