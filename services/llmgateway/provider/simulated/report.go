package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Record is what the provider remembers of one request.
type Record struct {
	// Number counts requests from 1, in the order of their arrival.
	Number     int       `json:"number"`
	ReceivedAt time.Time `json:"received_at"`
	// Format is openai, anthropic or gemini.
	Format string `json:"format,omitempty"`
	// Key is the KeyName of the caller's API key.
	Key string `json:"key,omitempty"`
	// CallKey is the header X-Pawl-Call-Key, or else X-Client-Request-Id.
	CallKey string `json:"call_key,omitempty"`
	// Fingerprint is a digest of the request's path and body: equal requests have the same.
	Fingerprint string `json:"fingerprint,omitempty"`
	Model       string `json:"model,omitempty"`
	Streamed    bool   `json:"streamed,omitempty"`
	// Admitted tells that no limit refused it: it counts in every peak per minute, whatever its outcome.
	Admitted         bool   `json:"admitted,omitempty"`
	Outcome          string `json:"outcome"`
	Status           int    `json:"status,omitempty"` // 0: no answer began
	PromptTokens     int    `json:"prompt_tokens,omitempty"`
	CachedTokens     int    `json:"cached_tokens,omitempty"` // of the prompt
	CompletionTokens int    `json:"completion_tokens,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// Admission is a request that no limit refused: an entry of the series from which any window can be computed.
type Admission struct {
	At     time.Time `json:"at"`
	Number int       `json:"number"` // of the Record
	Format string    `json:"format"`
	Key    string    `json:"key,omitempty"`
	Model  string    `json:"model"`
	// InputTokens and OutputTokens are what it was admitted with: its prompt, and the bound of its answer.
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// Report is what the provider has seen since it started or was told to forget.
type Report struct {
	Received int `json:"received"`
	InFlight int `json:"in_flight"`
	// MaxInFlight is the most requests at once, refused ones included.
	MaxInFlight int `json:"max_in_flight"`
	// AdmittedInFlight is how many of those in flight no limit has refused.
	AdmittedInFlight int `json:"admitted_in_flight"`
	// Outcomes counts the requests that ended, by how.
	Outcomes map[string]int `json:"outcomes"`
	// ByKey, ByModel and ByFormat count the requests by outcome, those in flight as running. Models are without their faults.
	ByKey    map[string]map[string]int `json:"by_key"`
	ByModel  map[string]map[string]int `json:"by_model"`
	ByFormat map[string]map[string]int `json:"by_format"`
	// Others counts what is no question to a model: models, files, batches.
	Others map[string]int `json:"others"`
	// PeakRequestsPerMinute and PeakTokensPerMinute are the most that was admitted in any 60 seconds.
	PeakRequestsPerMinute int `json:"peak_requests_per_minute"`
	PeakTokensPerMinute   int `json:"peak_tokens_per_minute"`
	// Peaks is all that is known of the most that was admitted, and PeaksByKey the same by API key.
	Peaks      Peaks            `json:"peaks"`
	PeaksByKey map[string]Peaks `json:"peaks_by_key"`
	// AttemptsPerAnswer is how many requests it took to answer a call, on the average of the remembered calls that were
	// answered; 0 if none was. Requests are of one call if they have the same CallKey, or without one the same Fingerprint.
	AttemptsPerAnswer float64 `json:"attempts_per_answer"`
	// ByCallKey and ByFingerprint count the remembered requests.
	ByCallKey     map[string]int `json:"by_call_key"`
	ByFingerprint map[string]int `json:"by_fingerprint"`
	// Requests are the newest ones, oldest first.
	Requests []Record `json:"requests"`
}

// KeyName is how reports name an API key: by a digest and its last four characters. No key has no name.
func KeyName(key string) string {
	if key == "" {
		return ""
	}
	digest := sha256.Sum256([]byte(key))
	return hex.EncodeToString(digest[:4]) + "-" + key[max(0, len(key)-4):]
}

// attemptsPerAnswer computes the figure of that name.
func attemptsPerAnswer(requests []Record) float64 {
	tries, answered := map[string]int{}, map[string]bool{}
	for _, r := range requests {
		call := r.CallKey
		if call == "" {
			call = "\x00" + r.Fingerprint
		}
		tries[call]++
		answered[call] = answered[call] || r.Outcome == outcomeAnswered
	}
	sum, calls := 0, 0
	for call, n := range tries {
		if answered[call] {
			sum, calls = sum+n, calls+1
		}
	}
	if calls == 0 {
		return 0
	}
	return float64(sum) / float64(calls)
}
