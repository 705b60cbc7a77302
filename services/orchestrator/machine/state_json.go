package machine

import (
	"encoding/json"
	"fmt"
)

// The stored form of State: short readable keys, and nothing where a value is the usual one. A pending step of the first
// generation is {}.
type (
	stateJSON struct {
		Steps  []headJSON  `json:"steps"`
		Ending *endingJSON `json:"ending,omitempty"`
		Held   bool        `json:"held,omitempty"`
	}
	headJSON struct {
		Phase      Phase  `json:"p,omitempty"`
		Generation int    `json:"gen,omitempty"`
		EndedSeq   int64  `json:"seq,omitempty"`
		Tolerated  bool   `json:"tolerated,omitempty"`
		Reason     Reason `json:"reason,omitempty"`
		Total      int    `json:"total,omitempty"`
		Done       int    `json:"done,omitempty"`
		Skipped    int    `json:"skipped,omitempty"`
		Failed     int    `json:"failed,omitempty"`
		Active     int    `json:"active,omitempty"`
		Waiting    int    `json:"waiting,omitempty"`
		Review     int    `json:"review,omitempty"`
		Next       int    `json:"next,omitempty"`
	}
	endingJSON struct {
		Status RunStatus `json:"status"`
		Reason Reason    `json:"reason,omitempty"`
		Detail string    `json:"detail,omitempty"`
		Step   int       `json:"step"`
		Undo   bool      `json:"undo,omitempty"`
	}
)

func marshalState(s State) ([]byte, error) {
	doc := stateJSON{Steps: make([]headJSON, len(s.Heads)), Held: s.Held}
	for i, h := range s.Heads {
		doc.Steps[i] = headToJSON(h)
	}
	if s.Ending != nil {
		e := endingJSON(*s.Ending)
		doc.Ending = &e
	}
	return json.Marshal(doc)
}

func unmarshalState(text []byte, s *State) error {
	var doc stateJSON
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("run state: %w", err)
	}
	*s = State{Heads: make([]Head, len(doc.Steps)), Held: doc.Held}
	for i, h := range doc.Steps {
		s.Heads[i] = headFromJSON(h)
	}
	if doc.Ending != nil {
		e := Ending(*doc.Ending)
		s.Ending = &e
	}
	return nil
}

func headToJSON(h Head) headJSON {
	doc := headJSON{
		Phase: h.Phase, Generation: h.Generation, EndedSeq: h.EndedSeq, Tolerated: h.Tolerated, Reason: h.Reason,
		Total: h.Shards.Total, Done: h.Shards.Done, Skipped: h.Shards.Skipped, Failed: h.Shards.Failed,
		Active: h.Shards.Active, Waiting: h.Shards.Waiting, Review: h.Shards.Review, Next: h.Shards.Next,
	}
	if doc.Phase == PhasePending {
		doc.Phase = ""
	}
	if doc.Generation == 1 {
		doc.Generation = 0
	}
	return doc
}

func headFromJSON(doc headJSON) Head {
	h := Head{
		Phase: doc.Phase, Generation: doc.Generation, EndedSeq: doc.EndedSeq, Tolerated: doc.Tolerated, Reason: doc.Reason,
		Shards: Shards{
			Total: doc.Total, Done: doc.Done, Skipped: doc.Skipped, Failed: doc.Failed,
			Active: doc.Active, Waiting: doc.Waiting, Review: doc.Review, Next: doc.Next,
		},
	}
	if h.Phase == "" {
		h.Phase = PhasePending
	}
	if h.Generation == 0 {
		h.Generation = 1
	}
	return h
}
