package gemini

import (
	"encoding/base64"
	"strconv"
	"strings"
)

const (
	// ownID begins the ids of calls to which Gemini gave none, so that results can name them.
	ownID = "pawl_call_"
	// signed stands between an id and the signature that came with the call.
	signed = "_signed_"
)

// joinID makes the id by which the asker names a call: Gemini's own, or one by its place, with the call's signature. It
// consists of letters that any provider takes in an id, so that a conversation may go on elsewhere.
func joinID(id string, place int, signature string) string {
	if id == "" {
		id = ownID + strconv.Itoa(place)
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if signature == "" || err != nil {
		return id
	}
	return id + signed + base64.RawURLEncoding.EncodeToString(raw)
}

// splitID takes an id apart: what Gemini called it, empty for nothing, and the signature.
func splitID(joined string) (id, signature string) {
	id, text, found := strings.Cut(joined, signed)
	if raw, err := base64.RawURLEncoding.DecodeString(text); found && err == nil {
		signature = base64.StdEncoding.EncodeToString(raw)
	} else {
		id = joined
	}
	if strings.HasPrefix(id, ownID) {
		id = ""
	}
	return id, signature
}
