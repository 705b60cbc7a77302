// Package price says what model calls cost: dated and tiered price rows, exact costs of counted tokens, and bounds for what
// is not counted yet. Everything is integer arithmetic in pico-dollars; nothing is ever rounded. The package is pure.
package price

import (
	"errors"
	"fmt"
	"slices"
)

// Tier is the service tier that a request was served on. Prices differ by it.
type Tier string

// The tiers. An empty tier is Standard.
const (
	Standard Tier = "standard"
	Batch    Tier = "batch"
	Flex     Tier = "flex"
	Priority Tier = "priority"
)

// Tiers lists all tiers.
func Tiers() []Tier { return []Tier{Standard, Batch, Flex, Priority} }

// or returns the tier, or Standard for none.
func (t Tier) or() Tier {
	if t == "" {
		return Standard
	}
	return t
}

// Tool is a kind of work that a provider's own server does during a request, and bills by the call.
type Tool int

// The tools.
const (
	WebSearch Tool = iota
	WebFetch
	FileSearch
	CodeExecution
	Grounding
	numTools
)

// Tools lists all tools.
func Tools() []Tool { return []Tool{WebSearch, WebFetch, FileSearch, CodeExecution, Grounding} }

// String is the tool's name in models files and in the call log.
func (t Tool) String() string {
	return [numTools]string{"web_search", "web_fetch", "file_search", "code_execution", "grounding"}[t]
}

// ParseTool finds a tool by its name.
func ParseTool(name string) (Tool, bool) {
	i := slices.IndexFunc(Tools(), func(t Tool) bool { return t.String() == name })
	return Tool(max(i, 0)), i >= 0
}

// ToolCalls counts calls of tools by kind.
type ToolCalls [numTools]int64

// Usage counts what one request used, as its provider bills it.
type Usage struct {
	// Input is everything that was sent, cached parts included.
	Input int64
	// CachedInput is the part of Input that was read from the provider's cache.
	CachedInput int64
	// CacheWrite and CacheWrite1h are the parts of Input that were written to the provider's cache: for its usual time (five
	// minutes, where there are several), and for an hour.
	CacheWrite, CacheWrite1h int64
	// Output is everything that was generated, reasoning included.
	Output int64
	// Reasoning is the part of Output that was thought and not said.
	Reasoning int64
	// Tools counts the calls of the provider's own tools.
	Tools ToolCalls
	// Tier is what the provider says that it served the request on; empty if it says nothing: then it is what was asked for.
	Tier Tier
}

// Fresh is the part of Input that was neither read from a cache nor written to one.
func (u Usage) Fresh() int64 { return u.Input - u.CachedInput - u.CacheWrite - u.CacheWrite1h }

// ErrUsage is returned for counts that no request can have.
var ErrUsage = errors.New("token counts are impossible")

// mostTokens is more than any model reads or writes in one request, and mostToolCalls more than any provider allows.
const (
	mostTokens    = 1_000_000_000
	mostToolCalls = 1_000_000
)

// Check returns ErrUsage when a part is larger than its whole, so that fresh input would be negative, or a count is negative
// or beyond any model.
func (u Usage) Check() error {
	negative := min(u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, slices.Min(u.Tools[:])) < 0
	beyond := max(u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output) > mostTokens || slices.Max(u.Tools[:]) > mostToolCalls
	if negative || beyond || u.Fresh() < 0 || u.Reasoning > u.Output {
		return fmt.Errorf("%w: %+v", ErrUsage, u)
	}
	return nil
}
