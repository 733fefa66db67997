package mcpevents

import "testing"

func TestSE54PollOfATypeThatWasRemoved(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, s *Server, call rawCaller) {
		at := rawPoll(t, call(1, methodPoll, `"name":"alert",`)).Cursor
		s.Withdraw("alert")
		wantError(t, call(2, methodPoll, `"name":"alert","cursor":"`+string(at)+`",`), -32023, `{"kind":"event"}`)
	})
}
