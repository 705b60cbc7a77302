package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// embedding is a vector of an answer to POST /embeddings.
type embedding struct {
	Index  int    `json:"index"`
	Vector vector `json:"embedding"`
}

// vector is a list of numbers, or base64 of them as 32-bit floats, the lowest byte first.
type vector []float32

var errVector = errors.New("not a vector")

// UnmarshalJSON reads either form.
func (v *vector) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return json.Unmarshal(raw, (*[]float32)(v))
	}
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(bytes)%4 != 0 {
		return errVector
	}
	*v = make(vector, len(bytes)/4)
	for i := range *v {
		(*v)[i] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))
	}
	return nil
}

// vectors returns the embeddings in the order of the texts; false when some are missing, twice there, or empty.
func vectors(data []embedding) ([]*systemv1.Embedding, bool) {
	slices.SortFunc(data, func(a, b embedding) int { return a.Index - b.Index })
	all := make([]*systemv1.Embedding, len(data))
	for i, e := range data {
		if e.Index != i || len(e.Vector) == 0 {
			return nil, false
		}
		all[i] = &systemv1.Embedding{Values: e.Vector}
	}
	return all, true
}
