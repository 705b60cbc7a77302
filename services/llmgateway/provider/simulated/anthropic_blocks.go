package simulated

import (
	"encoding/json"
	"errors"
)

// blocks is the content of a message: a text, or blocks of several types.
type blocks []block

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content blocks          `json:"content"` // of a tool's result
	Input   json.RawMessage `json:"input"`   // of a tool's call
	Cache   *struct {
		TTL string `json:"ttl"`
	} `json:"cache_control"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(source []byte) error {
	var text *string
	if json.Unmarshal(source, &text) == nil {
		if text != nil {
			*b = blocks{{Type: "text", Text: *text}}
		}
		return nil
	}
	var list []block
	if err := json.Unmarshal(source, &list); err != nil {
		return errors.New("content must be a string or a list of blocks")
	}
	*b = list
	return nil
}

// turns returns the blocks each as a turn, since each may be where the cached part of the prompt ends.
func (b blocks) turns(role string) []turn {
	var all []turn
	for _, block := range b {
		t := turn{role: role, more: len(all) > 0}
		switch block.Type {
		case "text":
			t.text = block.Text
		case "image", "document":
			t.images = 1
		case "tool_use":
			t.text = string(block.Input)
		case "tool_result":
			t.role = roleTool
			for _, found := range block.Content.turns(roleTool) {
				t.text += found.text
				t.images += found.images
			}
		}
		if block.Cache != nil {
			t.cache = cacheShort
			if block.Cache.TTL == "1h" {
				t.cache = cacheLong
			}
		}
		all = append(all, t)
	}
	return all
}
