package simulated

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// writeJSON answers with v. A caller that is gone does not read it; nobody else has to know.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(v))
}

// marshal encodes v, which cannot fail: it is made here of plain values. Text is left readable.
func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return out.Bytes()
}

// event frames data, which ends with a newline, as one server-sent event; name is "" in formats that name none.
func event(name string, data []byte) []byte {
	var out []byte
	if name != "" {
		out = append(out, "event: "+name+"\n"...)
	}
	return append(append(append(out, "data: "...), data...), '\n')
}

// wordsPerDelta is how much of an answer a piece of a stream carries.
const wordsPerDelta = 8

// runs yields a text in runs of a few words.
func runs(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		words := 0
		start := 0
		for i := range len(s) {
			if s[i] != ' ' {
				continue
			}
			if words++; words == wordsPerDelta {
				if !yield(s[start:i]) {
					return
				}
				start, words = i, 0
			}
		}
		if start < len(s) {
			yield(s[start:])
		}
	}
}
