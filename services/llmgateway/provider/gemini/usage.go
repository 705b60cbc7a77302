package gemini

import (
	"encoding/json"

	"pawl.internal/services/llmgateway/price"
)

// counts are the tokens as the format has them. Counts of nothing do not appear.
type counts struct {
	Prompt     *int64 `json:"promptTokenCount"`
	ToolPrompt int64  `json:"toolUsePromptTokenCount"`
	Cached     int64  `json:"cachedContentTokenCount"`
	Candidates int64  `json:"candidatesTokenCount"`
	Thoughts   int64  `json:"thoughtsTokenCount"`
	Total      *int64 `json:"totalTokenCount"`
	Traffic    string `json:"trafficType"`
}

// usage gives the counts; they are unknown when they are missing or impossible, or do not add up to their own total. The
// prompts of tools come on top of the prompt, and thoughts on top of what was said. Each of Google's searches is billed.
func (a answer) usage() (price.Usage, bool) {
	var c counts
	if json.Unmarshal(a.Usage, &c) != nil || c.Prompt == nil {
		return price.Usage{}, false
	}
	if least := min(*c.Prompt, c.ToolPrompt, c.Candidates, c.Thoughts); least < 0 {
		return price.Usage{}, false
	}
	u := price.Usage{
		Input: *c.Prompt + c.ToolPrompt, CachedInput: c.Cached,
		Output: c.Candidates + c.Thoughts, Reasoning: c.Thoughts, Tier: tierOf(c.Traffic),
	}
	if len(a.Candidates) > 0 {
		u.Tools[price.Grounding] = int64(len(a.Candidates[0].Grounding.Searches))
	}
	if c.Total != nil && *c.Total != u.Input+u.Output {
		return price.Usage{}, false
	}
	if u.Check() != nil {
		return price.Usage{}, false
	}
	return u, true
}

// tierOf is the tier that was served; none if it is not said, or not known to have prices.
func tierOf(traffic string) price.Tier {
	switch traffic {
	case "ON_DEMAND":
		return price.Standard
	case "ON_DEMAND_PRIORITY":
		return price.Priority
	case "ON_DEMAND_FLEX":
		return price.Flex
	default:
		return ""
	}
}
