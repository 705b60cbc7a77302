package simulated

import (
	"slices"
	"time"
)

// stage is how far a batch is.
type stage string

const (
	stageValidating stage = "validating"
	stageInProgress stage = "in_progress"
	stageFinalizing stage = "finalizing"
	stageCompleted  stage = "completed"
	stageFailed     stage = "failed" // its input could not be read
	stageCanceling  stage = "cancelling"
	stageCanceled   stage = "cancelled"
	stageExpired    stage = "expired"
)

// itemState is what became of one request of a batch.
type itemState string

const (
	itemPending   itemState = "pending"
	itemSucceeded itemState = "succeeded"
	itemErrored   itemState = "errored"
	itemCanceled  itemState = "canceled"
	itemExpired   itemState = "expired"
)

// batchItem is one request of a batch.
type batchItem struct {
	customID string
	body     []byte // of the request
	question *question
	bad      *failure // why it cannot be asked; or how it is to fail

	state  itemState
	status int    // of the answer
	result []byte // its body
}

// batch is a number of requests that are answered later. It goes on when it is looked at, by the time that has passed: nothing
// runs in between. The mutex of batches guards it.
type batch struct {
	id, form string
	items    []*batchItem
	faults   []lineFault // of its input; with any of them it fails
	created  time.Time
	expires  time.Time
	pace     BatchPace
	seen     time.Time     // until when worked counts
	worked   time.Duration // without the time in which it was held
	stage    stage
	at       map[stage]time.Time
	asked    batchOrder
}

// batchOrder is what the caller said of a batch beside its requests.
type batchOrder struct {
	endpoint, inputFile, window string
	metadata                    map[string]string
	outputFile, errorFile       string // set at the end
}

// lineFault is something wrong with a batch's input.
type lineFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   any    `json:"param"`
	Line    int    `json:"line"`
}

func (b *batch) ended() bool {
	return slices.Contains([]stage{stageCompleted, stageFailed, stageCanceled, stageExpired}, b.stage)
}

// total is how long the batch takes in all.
func (b *batch) total() time.Duration {
	return 2*time.Duration(b.pace.Step) + time.Duration(len(b.items))*time.Duration(b.pace.Item)
}

// advance brings the batch up to now; answer does one item.
func (b *batch) advance(now time.Time, answer func(*batchItem)) {
	if b.ended() {
		return
	}
	until := now
	if b.expires.Before(until) {
		until = b.expires
	}
	if !b.pace.Hold && until.After(b.seen) {
		b.worked += until.Sub(b.seen)
	}
	b.seen = now
	if b.stage == stageCanceling {
		if now.Sub(b.at[stageCanceling]) >= time.Duration(b.pace.Step) {
			b.end(stageCanceled, itemCanceled, now)
		}
		return
	}
	b.work(until, answer)
	if !b.ended() && !now.Before(b.expires) {
		b.end(stageExpired, itemExpired, b.expires)
	}
}

// work enters the stages that the time worked reaches.
func (b *batch) work(now time.Time, answer func(*batchItem)) {
	step := time.Duration(b.pace.Step)
	enter := func(s stage, after time.Duration) bool {
		if b.worked < after {
			return false
		}
		if b.at[s].IsZero() {
			b.stage, b.at[s] = s, now.Add(after-b.worked)
		}
		return true
	}
	if len(b.faults) > 0 {
		enter(stageFailed, step)
		return
	}
	if !enter(stageInProgress, step) {
		return
	}
	for _, item := range b.items[:b.due(b.worked-step)] {
		if item.state == itemPending {
			answer(item)
		}
	}
	if enter(stageFinalizing, b.total()-step) {
		enter(stageCompleted, b.total())
	}
}

// due is how many items are done after so much time of work.
func (b *batch) due(worked time.Duration) int {
	if b.pace.Item <= 0 {
		return len(b.items)
	}
	return min(len(b.items), int(worked/time.Duration(b.pace.Item)))
}

// end closes the batch; what is not done becomes rest.
func (b *batch) end(s stage, rest itemState, at time.Time) {
	b.stage, b.at[s] = s, at
	for _, item := range b.items {
		if item.state == itemPending {
			item.state = rest
		}
	}
}

// count returns how many items are in one of the states.
func (b *batch) count(states ...itemState) int {
	n := 0
	for _, item := range b.items {
		if slices.Contains(states, item.state) {
			n++
		}
	}
	return n
}

// unix is when a stage was entered, in seconds; nil if it was not.
func (b *batch) unix(s stage) any {
	if b.at[s].IsZero() {
		return nil
	}
	return b.at[s].Unix()
}
