package anthropic

import (
	"encoding/json"

	"pawl.internal/services/llmgateway/price"
)

// counts are the tokens as the format has them. What does not appear in an event has not changed since the event before.
type counts struct {
	Input         *int64 `json:"input_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	Creation      *struct {
		OneHour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Output        *int64 `json:"output_tokens"`
	OutputDetails *struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServerTools *struct {
		Searches int64 `json:"web_search_requests"`
		Fetches  int64 `json:"web_fetch_requests"`
	} `json:"server_tool_use"`
	Tier string `json:"service_tier"`
}

// readUsage gives the counts; they are unknown when they are missing or impossible.
func readUsage(raw json.RawMessage) (price.Usage, bool) {
	var c counts
	if json.Unmarshal(raw, &c) != nil {
		return price.Usage{}, false
	}
	return c.usage()
}

// add takes the counts of a later event. They count from the answer's beginning: the last ones hold.
func (c *counts) add(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, c) // leaves alone what does not appear
}

// usage turns the counts into those of a bill. The format's input is what was neither read from a cache nor written to one,
// and its thoughts are an estimate.
func (c counts) usage() (price.Usage, bool) {
	if c.Input == nil || c.Output == nil {
		return price.Usage{}, false
	}
	read, written := valueOf(c.CacheRead), valueOf(c.CacheCreation)
	u := price.Usage{
		Input: *c.Input + read + written, CachedInput: read, CacheWrite: written, Output: *c.Output, Tier: tierOf(c.Tier),
	}
	if c.Creation != nil {
		u.CacheWrite, u.CacheWrite1h = written-c.Creation.OneHour, c.Creation.OneHour
	}
	if c.OutputDetails != nil {
		u.Reasoning = min(c.OutputDetails.Thinking, u.Output)
	}
	if c.ServerTools != nil {
		u.Tools[price.WebSearch], u.Tools[price.WebFetch] = c.ServerTools.Searches, c.ServerTools.Fetches
	}
	if *c.Input < 0 || u.Check() != nil {
		return price.Usage{}, false
	}
	return u, true
}

func valueOf(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// tierOf is the tier that was served; none if it is not said, or not known to have prices.
func tierOf(word string) price.Tier {
	switch t := price.Tier(word); t {
	case price.Standard, price.Priority, price.Batch:
		return t
	default:
		return ""
	}
}
