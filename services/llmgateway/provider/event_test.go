package provider_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/provider"
)

func TestEventsOfABody(t *testing.T) {
	t.Parallel()
	named := func(name, data string) provider.Event { return provider.Event{Name: name, Data: []byte(data)} }
	for _, c := range []struct {
		name, body string
		want       []provider.Event
	}{
		{"nothing", "", nil},
		{"data", "data: {\"a\":1}\n\n", []provider.Event{named("", `{"a":1}`)}},
		{"no space after the colon", "data:1\n\n", []provider.Event{named("", "1")}},
		{"only one space is not the value's", "data:  1\n\n", []provider.Event{named("", " 1")}},
		{"named", "event: message_start\ndata: 1\n\n", []provider.Event{named("message_start", "1")}},
		{"a name holds for one event", "event: a\ndata: 1\n\ndata: 2\n\n", []provider.Event{named("a", "1"), named("", "2")}},
		{"a name without data", "event: a\n\ndata: 2\n\n", []provider.Event{named("", "2")}},
		{"several lines", "data: {\ndata: }\n\n", []provider.Event{named("", "{\n}")}},
		{"CRLF", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []provider.Event{named("a", "1"), named("", "2")}},
		{"CR", "data: 1\r\rdata: 2\r\r", []provider.Event{named("", "1"), named("", "2")}},
		{"byte order mark", "\ufeffdata: 1\n\n", []provider.Event{named("", "1")}},
		{"comments and blank lines", ": keep-alive\n\n\n:\n\ndata: 1\n: in between\ndata: 2\n\n", []provider.Event{named("", "1\n2")}},
		{"no data in it", "data\n\ndata:\n\n", nil},
		{"other fields", "id: 7\nretry: 10\nwhat: ever\nno colon\ndata: 1\n\n", []provider.Event{named("", "1")}},
		{"a JSON line", `data: 1` + "\n\n" + `{"error":{"message":"x"}}` + "\ndata: [DONE]\n\n", []provider.Event{
			named("", "1"), named("", `{"error":{"message":"x"}}`), named("", "[DONE]"),
		}},
		{"JSON lines alone", "{\"a\":1}\n{\"a\":2}", []provider.Event{named("", `{"a":1}`), named("", `{"a":2}`)}},
		{"a JSON line ends the event before it", "data: 1\n{}\n", []provider.Event{named("", "1"), named("", "{}")}},
		{"the last blank line is missing", "data: {\"a\":1}\n", []provider.Event{named("", `{"a":1}`)}},
		{"the last newline is missing", "data: [DONE]", []provider.Event{named("", "[DONE]")}},
		{"cut in the middle of an event", "data: 1\n\ndata: {\"a\":", []provider.Event{named("", "1")}},
		{"cut in the middle of a mark", "data: [DON", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, slices.Collect(provider.Events([]byte(c.body))))
		})
	}
}

func TestEventsCanBeLeftEarly(t *testing.T) {
	t.Parallel()
	n := 0
	for range provider.Events([]byte("data: 1\n\ndata: 2\n\n{}")) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestWhatIsAStream(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"":                               false,
		"data: 1\n\n":                    true,
		"\n\r\n: keep-alive\n\n":         true,
		"\ufeffevent: a\n":               true,
		"id: 1\n":                        true,
		"retry: 1\n":                     true,
		`{"choices":[]}`:                 false,
		"\n\n{\"choices\":[]}\n":         false,
		"{\n\"choices\":\n[]}\n":         false,
		"{\"a\":1}\n{\"a\":2}\n":         true,
		"{\"error\":{}}\ndata: [DONE]\n": true,
		"{\"choices\":":                  false,
		"[{\"a\":1}\n,{\"a\":1}]":        false,
		"<html>\n<body>":                 false,
		"{}\n\n":                         false,
	} {
		require.Equal(t, want, provider.IsStream([]byte(body)), "%q", body)
	}
}

// However the network cuts a body, the events are the same.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("\ufeffevent: a\r\ndata: {\"x\":1}\r\n\r\n: c\n{\"error\":1}\ndata: [DONE]"), uint16(3))
	f.Add([]byte("data: 1\rdata: 2\r\n\ndata:\n\n"), uint16(1))
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		want := slices.Collect(provider.Events(body))
		var got []provider.Event
		for _, e := range provider.EventsInPieces(body, int(size)+1) {
			require.NotEmpty(t, e.Data)
			got = append(got, e)
		}
		require.Equal(t, want, got)
		for _, e := range want {
			require.LessOrEqual(t, len(e.Data), len(body))
		}
		provider.IsStream(bytes.Clone(body))
	})
}
