package llmgateway

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// reparsePage is how many answers are read again at a time; each may be as long as provider.MaxBody.
const reparsePage = 32

// ReparseOptions say which stored answers are read again.
type ReparseOptions struct {
	// Run is the run whose answers are meant; zero for those of all runs that were made from From on and before To.
	Run      uuid.UUID
	From, To time.Time
	// Format limits it to answers of one form; empty for all.
	Format string
	// Prices are what a request costs whose tokens are counted anew.
	Prices price.List
	// Apply corrects what is stored.
	Apply bool
}

// Reparsed is a stored answer that reads otherwise now than when it came.
type Reparsed struct {
	Before store.StoredAnswer
	After  store.Outcome
	// Corrected is true when the correction is stored.
	Corrected bool
}

// Reparse reads stored answers again, by the readers of this build, and tells visit of those that read otherwise than they are
// stored. With Apply it corrects them, and what is booked for them: a call whose answer turns out to be good has an answer
// from then on, which whoever asks the question again gets. No provider is asked. It returns how many answers were read.
//
// What broke off, or was ambiguous, is not read: nobody knows whether what is there is all. An answer that counts stays the
// one that counts, whatever it reads like now.
func Reparse(ctx context.Context, pool *pgxpool.Pool, now time.Time, o ReparseOptions, visit func(Reparsed)) (read int, err error) {
	if err := pg.CheckVersion(ctx, pool, store.Schema()); err != nil {
		return 0, err
	}
	s := store.New(pool, pool, 1)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() {
		stop()
		if ended := <-ended; !errors.Is(ended, context.Canceled) {
			err = errors.Join(err, ended)
		}
	}()
	after, last := o.bounds()
	for {
		page, err := s.ListAnswers(ctx, after, last, reparsePage)
		if err != nil {
			return read, err
		}
		for _, seen := range page {
			if o.Format != "" && o.Format != seen.Format {
				continue
			}
			read++
			if err := reparseOne(ctx, s, seen, now, o, visit); err != nil {
				return read, err
			}
		}
		if len(page) < reparsePage {
			return read, nil
		}
		after = page[len(page)-1]
	}
}

// bounds returns what comes before the first answer, and the last run.
func (o ReparseOptions) bounds() (store.StoredAnswer, uuid.UUID) {
	if o.Run != uuid.Nil {
		return store.StoredAnswer{Key: store.Key{RunID: o.Run}}, o.Run
	}
	return store.StoredAnswer{Key: store.Key{RunID: firstID(o.From)}}, firstID(o.To)
}

// firstID is the lowest id that a run can have which is made at the time.
func firstID(at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(max(at.UnixMilli(), 0))<<16) //nolint:gosec // it is not negative
	return id
}

// reparseOne reads one answer again.
func reparseOne(
	ctx context.Context, s *store.Store, seen store.StoredAnswer, now time.Time, o ReparseOptions, visit func(Reparsed),
) error {
	next, err := reread(seen, o.Prices, now)
	if err != nil {
		return err
	}
	if same(seen.Outcome, next) {
		return nil
	}
	r := Reparsed{Before: seen, After: next}
	if o.Apply {
		c := &store.Correct{Seen: seen, Outcome: next}
		if err := s.Submit(ctx, c); err != nil {
			return err
		}
		r.Corrected = c.Done
	}
	visit(r)
	return nil
}

// reread is what would be stored of the answer if it came now.
func reread(seen store.StoredAnswer, prices price.List, now time.Time) (store.Outcome, error) {
	next := seen.Outcome
	x := provider.Exchange{
		Status: next.HTTPStatus, Body: next.Body, Sent: true, TooLong: len(next.Body) >= provider.MaxBody,
	}
	reading, err := read(seen.Format, x, now)
	if err != nil {
		return store.Outcome{}, err
	}
	state := stateOf(x, reading.Failure)
	if state != store.TryAnswered && state != store.TryFailed {
		return next, nil // whether it was whole cannot be told any more
	}
	if next.State != store.TryAnswered {
		next.State = state
	}
	next.Reason, next.Message, next.FinishReason = reading.Failure.Reason, reading.Failure.Message, reading.FinishReason
	if next.RequestID == "" {
		next.RequestID = reading.RequestID
	}
	switch {
	case reading.UsageKnown && stored(reading.Usage) != stored(next.Usage):
		next.Usage, next.Basis = reading.Usage, store.Counted
	case !reading.UsageKnown && next.State == store.TryAnswered && seen.Outcome.State != store.TryAnswered:
		next.Usage.Output, next.Basis = min(price.UsualTokens(len(reading.Text)), seen.MaxOutputTokens), store.Estimated
	default:
		return next, nil
	}
	if card, priced := prices.At(seen.Provider, seen.Model, seen.SentAt); priced {
		if bill, err := card.Cost(next.Usage); err == nil {
			next.Cost = bill.Total
			return next, nil
		}
	}
	next.Usage, next.Basis = seen.Outcome.Usage, seen.Outcome.Basis // what cannot be billed is left as it is
	return next, nil
}

// stored are the counts that the log keeps.
func stored(u price.Usage) [5]int64 {
	return [5]int64{u.Input, u.CachedInput, u.CacheWrite, u.Output, u.Reasoning}
}

// same reports whether two outcomes differ in nothing but words for people.
func same(a, b store.Outcome) bool {
	return a.State == b.State && a.Reason == b.Reason && a.FinishReason == b.FinishReason && stored(a.Usage) == stored(b.Usage) &&
		a.Cost == b.Cost && a.Basis == b.Basis
}

// PricesOf reads a models file for its prices: the keys of its providers need not be there. Without a file they are those of
// the simulated provider.
func PricesOf(file string, lookup func(string) (string, bool), now time.Time) (price.List, error) {
	known, err := pricesOf(file, lookup, now)
	if err != nil {
		return price.List{}, err
	}
	return price.NewList(known.Prices), nil
}
