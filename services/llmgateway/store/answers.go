package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// StoredAnswer is a request that was settled with an answer, and how it was read then.
type StoredAnswer struct {
	Key             Key
	TryNo           int32
	Provider, Model string
	Format          string
	SentAt          time.Time
	MaxOutputTokens int64
	// Outcome is what is stored of it, with the cost that is booked.
	Outcome Outcome
}

// ListAnswers returns the requests with an answer that come after the given one in the order of runs and keys, at most so many,
// up to the run last.
func (s *Store) ListAnswers(ctx context.Context, after StoredAnswer, last uuid.UUID, most int32) ([]StoredAnswer, error) {
	rows, err := db.New(s.control).ListAnswers(ctx, db.ListAnswersParams{
		AfterRun: after.Key.RunID, AfterKey: after.Key.Digest[:], AfterTry: after.TryNo, LastRun: last, Most: most,
	})
	if err != nil {
		return nil, fmt.Errorf("list answers: %w", pg.Fault(err))
	}
	answers := make([]StoredAnswer, len(rows))
	for i, r := range rows {
		answers[i] = StoredAnswer{
			Key: Key{RunID: r.RunID, Digest: [32]byte(r.CallKey)}, TryNo: r.TryNo, Provider: r.Provider, Model: r.Model, Format: r.Format,
			SentAt: r.SentAt, MaxOutputTokens: r.MaxOutputTokens, Outcome: outcomeOf(r),
		}
	}
	return answers, nil
}

func outcomeOf(r db.ListAnswersRow) Outcome {
	o := Outcome{
		State: TryState(r.State), HTTPStatus: int(r.HttpStatus), Reason: r.Reason, Message: r.Message, FinishReason: r.FinishReason,
		RequestID: r.ProviderRequestID, Body: r.Answer, Cost: r.Cost, Basis: Basis(r.CostBasis), Latency: r.Latency,
		Usage: price.Usage{
			Input: r.InputTokens, CachedInput: r.CachedInputTokens, CacheWrite: r.CacheWriteTokens, Output: r.OutputTokens,
			Reasoning: r.ReasoningTokens,
		},
	}
	if r.FirstByte != nil {
		o.FirstByte = *r.FirstByte
	}
	return o
}

// TakeCorrected returns, of the calls, one whose answer was corrected, for the question of this number alone; false if there is
// none.
func (s *Store) TakeCorrected(ctx context.Context, runID uuid.UUID, digests [][32]byte, ask int32) (Key, bool, error) {
	keys := make([][]byte, len(digests))
	for i := range digests {
		keys[i] = digests[i][:]
	}
	found, err := db.New(s.pool).TakeCorrected(ctx, db.TakeCorrectedParams{RunID: runID, CallKeys: keys, Ask: ask})
	if err != nil || len(found) == 0 {
		return Key{}, false, wrapList(err)
	}
	return Key{RunID: runID, Digest: [32]byte(found[0])}, true, nil
}

// Correct stores how a stored answer reads now, and books what it costs now in place of what was booked.
//
// An answer that counts stays the one that counts, whatever it reads like now. Nothing happens when the request is not as it
// was seen any more.
type Correct struct {
	Seen    StoredAnswer
	Outcome Outcome
	// Done is the result.
	Done bool
}

func (c *Correct) key() Key         { return c.Seen.Key }
func (c *Correct) purse() *newPurse { return nil }
func (c *Correct) size() int        { return len(c.Outcome.Body) }

func (c *Correct) apply(g *group) {
	c.Done = false
	p, l := g.purses[c.Seen.Key.RunID], g.calls[c.Seen.Key]
	if p == nil || l == nil {
		return
	}
	for _, t := range l.tries {
		if t.no == c.Seen.TryNo && t.state == c.Seen.Outcome.State && t.cost == c.Seen.Outcome.Cost {
			g.settle(p, l, t, c.Outcome)
			c.Done = true
			if l.winning == t.no && c.Outcome.Reason == "" && c.Seen.Outcome.Reason != "" {
				g.corrected = append(g.corrected, l.key)
			}
		}
	}
}

// writeCorrected marks the calls whose answer was found good.
func (g *group) writeCorrected(ctx context.Context) error {
	if len(g.corrected) == 0 {
		return nil
	}
	rows := db.MarkCorrectedParams{Now: &g.now, LeastID: g.least, MostID: g.most}
	for _, k := range g.corrected {
		rows.RunIds, rows.CallKeys = append(rows.RunIds, k.RunID), append(rows.CallKeys, bytes.Clone(k.Digest[:]))
	}
	return g.query.MarkCorrected(ctx, rows)
}
