package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// many is how many events share groups, and guilty is the one among them that PostgreSQL refuses.
	many, guilty = 500, 271
	// mostGroups is how many transactions that may take. The events of each of the two lanes make up to three groups; the
	// guilty one's is halved down to it, which costs two transactions for each of at most nine halvings.
	mostGroups = 2*3 + 2*9
)

// countGroups counts the transactions that come to write into the table, those that are rolled back too: sequences are not.
func (b *bench) countGroups(table, change string) (count func() int) {
	b.t.Helper()
	b.execute(`CREATE SEQUENCE public.groups MINVALUE 0`)
	b.execute(`CREATE FUNCTION public.count_group() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM nextval('public.groups'); RETURN NULL; END $$`)
	b.execute(fmt.Sprintf(`CREATE TRIGGER counted BEFORE %s ON %s FOR EACH STATEMENT EXECUTE FUNCTION public.count_group()`, change, table))
	return func() (n int) {
		b.scan(`SELECT nextval('public.groups')`, nil, &n)
		return n
	}
}

func (b *bench) execute(statement string) {
	b.t.Helper()
	_, err := b.database.Pool.Exec(b.t.Context(), statement)
	require.NoError(b.t, err)
}

// requireGuiltyAlone fails unless exactly the guilty one was refused, with an error that blames the event and not the
// database: who repeats it would repeat it for ever.
func requireGuiltyAlone(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if i != guilty {
			require.NoError(t, err, i)
			continue
		}
		require.Error(t, err)
		require.NotContains(t, []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted}, fault.CodeOf(err), "%v", err)
	}
}

// holdMany returns claimed steps of so many runs.
func (b *bench) holdMany(n int) []held {
	b.t.Helper()
	b.chain("chain", 1)
	holds := b.awaitedMany(n)
	b.grantMany(holds)
	return holds
}

// awaitedMany returns the steps of so many new runs, which nobody has claimed.
func (b *bench) awaitedMany(n int) []held {
	b.t.Helper()
	holds := make([]held, n)
	for i, run := range b.createMany("chain", n) {
		holds[i] = held{Ref: store.Ref{RunID: run, Step: "a", Shard: store.Whole, Generation: 1}}
	}
	return holds
}

// One outcome of 500 is refused by PostgreSQL, in whatever way and at whatever moment: it fails alone.
func TestGuiltyOutcomeFailsAlone(t *testing.T) {
	failing := func(change func(*machine.FailedPermanent)) func(*bench, held) *store.Event {
		return func(_ *bench, h held) *store.Event {
			return &store.Event{Ref: h.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
				e := machine.FailedPermanent{Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: "handler_error", Detail: "bad"}
				change(&e)
				return e
			}}
		}
	}
	tests := map[string]func(*bench, held) *store.Event{
		"a text with a NUL": failing(func(e *machine.FailedPermanent) { e.Detail = "PostgreSQL refuses \x00" }),
		"no UTF-8":          failing(func(e *machine.FailedPermanent) { e.Reason = "\xff" }),
		"a CHECK": func(b *bench, h held) *store.Event {
			b.execute(`ALTER TABLE core.pipeline_step_result ADD CONSTRAINT forbidden CHECK (output IS NULL OR output::text <> '"forbidden"')`)
			return b.succeed(h, `"forbidden"`)
		},
		"a constraint that is checked at the commit": func(b *bench, h held) *store.Event {
			b.execute(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE check_violation USING MESSAGE = 'too late'; END $$`)
			b.execute(`CREATE CONSTRAINT TRIGGER late AFTER INSERT ON core.pipeline_step_result_default DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW WHEN (NEW.output::text = '"forbidden"') EXECUTE FUNCTION public.refuse()`)
			return b.succeed(h, `"forbidden"`)
		},
	}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			holds := b.holdMany(many)
			events := make([]*store.Event, many)
			for i, h := range holds {
				events[i] = b.succeed(h, `{"n":1}`)
			}
			events[guilty] = poison(b, holds[guilty])
			groups := b.countGroups("core.pipeline_run", "UPDATE")
			requireGuiltyAlone(t, b.store.Submit(t.Context(), events...))
			require.LessOrEqual(t, groups(), mostGroups, "transactions for 500 events of which one is refused")
			require.Equal(t, many-1, b.count(`core.pipeline_run WHERE status = 'done'`))
			require.Equal(t, "running", b.stepStatus(holds[guilty].Ref), "nothing of a refused outcome is stored")

			// What its runner reports then is stored: the step ends, with a reason.
			end := failing(func(*machine.FailedPermanent) {})(b, holds[guilty])
			require.Equal(t, machine.Applied, b.submit(end))
			require.Equal(t, "failed", b.status(holds[guilty].RunID))
		})
	}
}

// One creation of 500 is refused by PostgreSQL: its caller alone gets an error, and no run.
func TestGuiltyCreationFailsAlone(t *testing.T) {
	noise := make([]byte, 8000)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	long := hex.EncodeToString(noise) // too long for an index, however it is compressed
	tests := map[string]func(*store.NewRun){
		"a CHECK":                       func(n *store.NewRun) { n.Kind = "unheard of" },
		"a text with a NUL":             func(n *store.NewRun) { n.EntityID = "a\x00b" },
		"no UTF-8":                      func(n *store.NewRun) { n.CallbackURL = "http://\xff" },
		"a key too long for its index":  func(n *store.NewRun) { n.Key = long },
		"a name too long for its index": func(n *store.NewRun) { n.EntityID = long },
		"a label that jsonb refuses":    func(n *store.NewRun) { n.Labels = map[string]string{"a": "\x00"} },
	}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.chain("chain", 1)
			news := make([]*store.NewRun, many)
			for i := range news {
				news[i] = b.newRun("chain")
			}
			poison(news[guilty])
			groups := b.countGroups("core.idempotency", "INSERT")
			// A transaction that holds the table makes all but the first groups wait, and so share the next.
			blocker := b.begin()
			_, err := blocker.Exec(t.Context(), `LOCK TABLE core.idempotency IN SHARE MODE`)
			require.NoError(t, err)
			errs := make([]error, many)
			var all sync.WaitGroup
			for i, n := range news {
				all.Go(func() { errs[i] = b.store.CreateRun(t.Context(), n) })
			}
			b.awaitWaiting(2) // a group a lane
			require.NoError(t, blocker.Commit(t.Context()))
			all.Wait()
			requireGuiltyAlone(t, errs)
			require.LessOrEqual(t, groups(), mostGroups+2*8, "transactions for 500 creations of which one is refused")
			require.Equal(t, many-1, b.count(`core.pipeline_run`))
			require.Equal(t, many-1, b.count(`core.idempotency`), "a refused creation uses no key up")
			require.Zero(t, b.count(`core.pipeline_run WHERE id = $1`, news[guilty].ID))
		})
	}
}

// One claim of 500 is refused by PostgreSQL: the other 499 are granted, and the step waits as before.
func TestGuiltyClaimFailsAlone(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	holds := b.awaitedMany(many)
	forbidden := b.draw()
	b.execute(fmt.Sprintf(`ALTER TABLE core.step_live ADD CONSTRAINT forbidden CHECK (worker <> '%s')`, uuid.UUID(forbidden)))
	events := make([]*store.Event, many)
	for i := range holds {
		h := &holds[i]
		h.fence, h.worker = b.draw(), b.draw()
		if i == guilty {
			h.worker = forbidden
		}
		events[i] = &store.Event{Ref: h.Ref, Claim: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Claimed{Ref: r, Fence: h.fence, Worker: h.worker}
		}}
	}
	groups := b.countGroups("core.step_live", "UPDATE")
	requireGuiltyAlone(t, b.store.Submit(t.Context(), events...))
	require.LessOrEqual(t, groups(), mostGroups, "transactions for 500 claims of which one is refused")
	require.Equal(t, many-1, b.count(`core.step_live WHERE status = 'running'`))
	require.Equal(t, "queued", b.stepStatus(holds[guilty].Ref))
	again := b.grant(holds[guilty].Ref)
	require.Equal(t, machine.Applied, b.submit(b.succeed(again, `1`)), "another runner can have the step")
}
