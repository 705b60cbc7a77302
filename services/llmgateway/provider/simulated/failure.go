package simulated

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// failKind is why a request fails, whatever a format calls it.
type failKind int

const (
	// failStatus is a failure of which only the status is known.
	failStatus failKind = iota
	failInvalid
	failKey       // the API key is not accepted
	failModel     // there is no such model
	failMissing   // there is no such file, batch or other thing
	failTooLong   // the prompt does not fit
	failRequests  // a limit of requests
	failTokens    // a limit of tokens
	failConnected // a limit of requests at once
	failDaily     // a limit that opens again in hours
	failQuota     // the account's money
)

// failure is a refusal in no format's terms.
type failure struct {
	kind    failKind
	status  int // 0: the format's own for the kind
	message string
	param   string        // the member that is wrong; "" if it is none in particular
	model   string        // that there is not
	wait    time.Duration // 0: nothing is said about it
	waitAs  waitForm
}

// waitForm is how a refusal says how long to wait.
type waitForm string

const (
	waitUsual   waitForm = ""        // as the format does
	waitSeconds waitForm = "seconds" // Retry-After in seconds
	waitMillis  waitForm = "ms"      // Retry-After-Ms
	waitDate    waitForm = "date"    // Retry-After as a date
)

// invalid returns an error of the caller; param is the member that is wrong, "" if it is none in particular.
func invalid(param, message string) *failure {
	return &failure{kind: failInvalid, status: http.StatusBadRequest, param: param, message: message}
}

func missing(what, id string) *failure {
	return &failure{
		kind: failMissing, status: http.StatusNotFound,
		message: fmt.Sprintf("there is no %s %q at the simulated provider", what, id),
	}
}

func noModel(model string, models []string) *failure {
	return &failure{
		kind: failModel, param: "model", model: model,
		message: fmt.Sprintf("The model %q does not exist; the simulated provider has %s.", model, strings.Join(models, ", ")),
	}
}

// setWait sets the headers that say how long to wait. Whole seconds are rounded up, so that nobody comes too early.
func (f *failure) setWait(h http.Header, now time.Time, usual ...waitForm) {
	if f.wait <= 0 {
		return
	}
	if f.waitAs != waitUsual {
		usual = []waitForm{f.waitAs}
	}
	for _, form := range usual {
		switch form {
		case waitUsual:
		case waitSeconds:
			h.Set("Retry-After", strconv.FormatFloat(math.Ceil(f.wait.Seconds()), 'f', 0, 64))
		case waitMillis:
			h.Set("Retry-After-Ms", strconv.FormatInt(f.wait.Milliseconds(), 10))
		case waitDate:
			h.Set("Retry-After", now.Add(f.wait+time.Second-1).UTC().Format(http.TimeFormat))
		}
	}
}
