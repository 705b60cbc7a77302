package openai

import (
	"encoding/json"

	"pawl.internal/services/llmgateway/price"
)

// counts are the tokens as the format has them.
type counts struct {
	Prompt        *int64 `json:"prompt_tokens"`
	Completion    *int64 `json:"completion_tokens"`
	Total         *int64 `json:"total_tokens"`
	PromptDetails struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	// CacheHit and CacheMiss are DeepSeek's words for cached tokens and all others.
	CacheHit  int64  `json:"prompt_cache_hit_tokens"`
	CacheMiss *int64 `json:"prompt_cache_miss_tokens"`
}

// usage gives the counts; they are unknown when they are missing or impossible, or do not add up to their own sums.
// Embeddings come without a count of what was generated, which is nothing.
func (c completion) usage() (price.Usage, bool) {
	var n counts
	if json.Unmarshal(c.Usage, &n) != nil || n.Prompt == nil || n.Completion == nil && len(c.Data) == 0 {
		return price.Usage{}, false
	}
	u := price.Usage{
		Input:       *n.Prompt,
		CachedInput: max(n.PromptDetails.Cached, n.CacheHit),
		CacheWrite:  n.PromptDetails.CacheWrite,
		Reasoning:   n.CompletionDetails.Reasoning,
		Tier:        tierOf(c.ServiceTier),
	}
	if n.Completion != nil {
		u.Output = *n.Completion
	}
	if n.Total != nil && u.Reasoning > 0 && *n.Total == u.Input+u.Output+u.Reasoning {
		u.Output += u.Reasoning // xAI counts thoughts beside what was said
	}
	if n.Total != nil && *n.Total != u.Input+u.Output || n.CacheMiss != nil && n.CacheHit+*n.CacheMiss != u.Input {
		return price.Usage{}, false
	}
	if u.Check() != nil {
		return price.Usage{}, false
	}
	return u, true
}

// tierOf is the tier that was served; none if it is not said, or not known to have prices.
func tierOf(word string) price.Tier {
	switch word {
	case "default":
		return price.Standard
	case "flex":
		return price.Flex
	case "priority":
		return price.Priority
	default:
		return ""
	}
}
