package gather_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/gather"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const commitTime = time.Second

type event struct {
	name string
	lane uint64
	kind int
	size int
}

var errGuilty = errors.New("guilty")

// store is what a collector commits to: it takes a second for each group and notes them.
type store struct {
	mu     sync.Mutex
	groups [][]string
	fail   func(group []*event) error
}

func (s *store) commit(ctx context.Context, _ int, group []*event) error {
	if err := clock.System().Sleep(ctx, commitTime); err != nil {
		return err
	}
	names := make([]string, len(group))
	for i, e := range group {
		names[i] = e.name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, names)
	if s.fail == nil {
		return nil
	}
	return s.fail(group)
}

// bundle is a collector with a store behind it, within a synctest bubble.
type bundle struct {
	*store
	collector *gather.Collector[*event]
	stop      func() // ends Run and waits for it
}

func setup(t *testing.T, adjust func(*gather.Config[*event])) *bundle {
	t.Helper()
	b := &bundle{store: &store{}}
	cfg := gather.Config[*event]{
		Lane: func(e *event) uint64 { return e.lane }, Kind: func(e *event) int { return e.kind },
		Size: func(e *event) int { return e.size }, Commit: b.commit,
	}
	if adjust != nil {
		adjust(&cfg)
	}
	b.collector = gather.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- b.collector.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
	})
	t.Cleanup(b.stop)
	return b
}

// submit sends events one after the other, each from a goroutine that waits for its answer.
func (b *bundle) submit(t *testing.T, events ...*event) map[string]chan error {
	t.Helper()
	answers := map[string]chan error{}
	for _, e := range events {
		answer := make(chan error, 1)
		answers[e.name] = answer
		go func() { answer <- b.collector.Submit(t.Context(), e) }()
		synctest.Wait()
	}
	return answers
}

func since(began time.Time) time.Duration { return clock.System().Now().Sub(began) }

func TestFirstEventStartsAtOnceAndTheNextOnesShareAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		began := clock.System().Now()
		answers := b.submit(t, &event{name: "a"}, &event{name: "b"}, &event{name: "c"})
		require.NoError(t, <-answers["a"])
		require.Equal(t, commitTime, since(began))
		require.NoError(t, <-answers["b"])
		require.NoError(t, <-answers["c"])
		require.Equal(t, 2*commitTime, since(began))
		require.Equal(t, [][]string{{"a"}, {"b", "c"}}, b.groups)
		b.stop()
	})
}

func TestGroupsAreBoundedByEventsBytesAndKind(t *testing.T) {
	t.Parallel()
	const durable, asynchronous = 0, 1
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *gather.Config[*event]) { c.MaxEvents, c.MaxBytes = 3, 100 })
		answers := b.submit(t,
			&event{name: "first"},
			&event{name: "a"}, &event{name: "b"}, &event{name: "x", kind: asynchronous}, &event{name: "c"}, &event{name: "d"},
			&event{name: "y", kind: asynchronous}, &event{name: "huge", size: 200}, &event{name: "e", size: 60},
			&event{name: "f", size: 60},
		)
		for _, answer := range answers {
			require.NoError(t, <-answer)
		}
		require.Equal(t,
			[][]string{{"first"}, {"a", "b", "c"}, {"x", "y"}, {"d"}, {"huge"}, {"e"}, {"f"}}, b.groups)
		b.stop()
	})
}

func TestLanesCommitBesideEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *gather.Config[*event]) { c.Lanes = 2 })
		began := clock.System().Now()
		answers := b.submit(t, &event{name: "a", lane: 1}, &event{name: "b", lane: 2})
		require.NoError(t, <-answers["a"])
		require.NoError(t, <-answers["b"])
		require.Equal(t, commitTime, since(began))
		b.stop()
	})
}

func TestSubmitAllSharesAGroupAndAnswersEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *gather.Config[*event]) { c.Lanes = 2 })
		b.fail = guilty("b")
		errs := b.collector.SubmitAll(t.Context(), []*event{{name: "a"}, {name: "b"}, {name: "c", lane: 1}, {name: "d"}})
		require.Equal(t, []error{nil, errGuilty, nil, nil}, errs)
		require.Contains(t, b.groups, []string{"a", "b", "d"})
		require.Contains(t, b.groups, []string{"c"})
		b.stop()
	})
}

// guilty makes commits fail whose group holds one of the named events.
func guilty(names ...string) func([]*event) error {
	return func(group []*event) error {
		if slices.ContainsFunc(group, func(e *event) bool { return slices.Contains(names, e.name) }) {
			return errGuilty
		}
		return nil
	}
}

func TestGuiltyEventFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		b.fail = guilty("e", "f")
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		events := make([]*event, len(names))
		for i, name := range names {
			events[i] = &event{name: name}
		}
		errs := b.collector.SubmitAll(t.Context(), events)
		for i, name := range names {
			if name == "e" || name == "f" {
				require.ErrorIs(t, errs[i], errGuilty)
			} else {
				require.NoError(t, errs[i], name)
			}
		}
		require.Equal(t, [][]string{
			names, {"a", "b", "c", "d"}, {"e", "f", "g", "h"}, {"e", "f"}, {"e"}, {"f"}, {"g", "h"},
		}, b.groups)
		b.stop()
	})
}

func TestErrorOfTheStoreItselfIsNotSplit(t *testing.T) {
	t.Parallel()
	for _, err := range []error{fault.Unavailable(nil, "away"), context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, nil)
			b.fail = func([]*event) error { return err }
			errs := b.collector.SubmitAll(t.Context(), []*event{{name: "a"}, {name: "b"}, {name: "c"}})
			require.Equal(t, []error{err, err, err}, errs)
			require.Equal(t, [][]string{{"a", "b", "c"}}, b.groups)
			b.stop()
		})
	}
}

func TestCallerThatGivesUpDoesNotTakeItsEventBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), commitTime/2)
		defer cancel()
		began := clock.System().Now()
		err := b.collector.Submit(ctx, &event{name: "a"})
		require.Equal(t, codes.DeadlineExceeded, fault.CodeOf(err))
		require.Equal(t, commitTime/2, since(began))
		b.stop()
		require.Equal(t, [][]string{{"a"}}, b.groups)
	})
}

func TestFullLaneHoldsCallersBack(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*gather.Config[*event]){
		"events": func(c *gather.Config[*event]) { c.MaxEvents = 1 },
		"bytes":  func(c *gather.Config[*event]) { c.MaxBytes = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, limit)
				b.submit(t, &event{name: "a", size: 10})
				b.submit(t, &event{name: "b", size: 10}, &event{name: "c", size: 10}, &event{name: "d", size: 10},
					&event{name: "e", size: 10})
				ctx, cancel := context.WithTimeout(t.Context(), commitTime/2)
				defer cancel()
				err := b.collector.Submit(ctx, &event{name: "given up"})
				require.Equal(t, codes.DeadlineExceeded, fault.CodeOf(err))
				require.NoError(t, b.collector.Submit(t.Context(), &event{name: "last", size: 10}))
				b.stop()
				require.Equal(t, [][]string{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"last"}}, b.groups)
			})
		})
	}
}

func TestStopCommitsWhatIsQueuedAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil)
		answers := b.submit(t, &event{name: "a"}, &event{name: "b"})
		b.stop()
		require.NoError(t, <-answers["a"])
		require.NoError(t, <-answers["b"])
		err := b.collector.Submit(t.Context(), &event{name: "late"})
		require.Equal(t, codes.Unavailable, fault.CodeOf(err))
		require.Equal(t, [][]string{{"a"}, {"b"}}, b.groups)
	})
}

func TestStopReleasesCallersThatWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *gather.Config[*event]) { c.MaxEvents = 1 })
		answers := b.submit(t, &event{name: "a"}, &event{name: "b"}, &event{name: "c"}, &event{name: "d"},
			&event{name: "e"}, &event{name: "no room"})
		b.stop()
		require.Equal(t, codes.Unavailable, fault.CodeOf(<-answers["no room"]))
		require.NoError(t, <-answers["e"])
	})
}

func TestStopDoesNotWaitForeverForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *gather.Config[*event]) {
			c.Drain = commitTime
			c.Commit = func(ctx context.Context, _ int, _ []*event) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
		answers := b.submit(t, &event{name: "a"}, &event{name: "b"}, &event{name: "c"})
		began := clock.System().Now()
		b.stop()
		require.Equal(t, commitTime, since(began))
		for _, answer := range answers {
			require.ErrorIs(t, <-answer, context.Canceled)
		}
	})
}

func TestEventsBeforeRunWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := gather.New(gather.Config[*event]{Lanes: 1, Commit: s.commit})
		answer := make(chan error, 1)
		go func() { answer <- c.Submit(t.Context(), &event{name: "early"}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		require.NoError(t, <-answer)
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
	})
}
