package simulated

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is something that goes wrong on request. In JSON it is what POST /admin/faults takes, for example
//
//	{"kind": "429", "argument": "2s", "count": 3, "model": "sim-small"}
//
// The package's comment lists the kinds.
type Fault struct {
	// ID names the fault in DELETE /admin/faults/{id}. The provider gives it.
	ID string `json:"id,omitempty"`
	// Kind is one of those that the package's comment lists.
	Kind string `json:"kind"`
	// Argument is what the kind says; empty means its default.
	Argument string `json:"argument,omitempty"`
	// Count is how many requests it hits; 0 means all until it is deleted.
	Count int `json:"count,omitempty"`
	// Model restricts it to requests to this model.
	Model string `json:"model,omitempty"`
	// Contains restricts it to requests with this text in a message.
	Contains string `json:"contains,omitempty"`
	// Format restricts it to requests of this format: openai, anthropic or gemini.
	Format string `json:"format,omitempty"`
	// Reply is the answer of kind reply.
	Reply *Reply `json:"reply,omitempty"`

	status  int           // of an error, or of a page
	wait    time.Duration // the argument of kinds that take a time
	waitAs  waitForm
	after   int // deltas that come before it; -1: half of the answer
	latency Latency
	usage   usage
}

// Reply is an answer given byte by byte.
type Reply struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body"`
	// Raw is a body that no JSON text can hold, in base64: bytes that are not UTF-8. It goes before Body.
	Raw []byte `json:"raw,omitempty"`
}

// content is the body to send.
func (r *Reply) content() []byte {
	if len(r.Raw) > 0 {
		return r.Raw
	}
	return []byte(r.Body)
}

// parse checks the fault and reads its kind and argument.
func (f *Fault) parse() error {
	if f.Count < 0 {
		return fmt.Errorf("count is %d: write how many requests to hit, or 0 for all", f.Count)
	}
	if (f.Kind == kindReply) != (f.Reply != nil) {
		return fmt.Errorf("kind %q and a reply go only together", kindReply)
	}
	if f.Reply != nil && (f.Reply.Status < 200 || f.Reply.Status > 599) {
		return fmt.Errorf("reply.status is %d: write a status from 200 to 599", f.Reply.Status)
	}
	if f.Format != "" && !slices.Contains(formats(), f.Format) {
		return fmt.Errorf("there is no format %q: write one of %s", f.Format, strings.Join(formats(), ", "))
	}
	if status, err := strconv.Atoi(f.Kind); err == nil && status >= 400 && status <= 599 {
		f.status = status
		return f.parseWait()
	}
	for _, k := range kinds() {
		if k.name == f.Kind {
			return f.parseArgument(k)
		}
	}
	return fmt.Errorf("there is no fault %q: write a status from 400 to 599, or one of %s", f.Kind, strings.Join(kindNames(), ", "))
}

// parseArgument reads the argument of a kind with a name.
func (f *Fault) parseArgument(k kind) (err error) {
	switch k.argument {
	case argNone:
		if f.Argument != "" {
			return fmt.Errorf("%s takes no argument, and has %q", f.Kind, f.Argument)
		}
	case argPause:
		return f.parsePause()
	case argWait:
		return f.parseWait()
	case argDeltas:
		f.after, err = f.parseNumber(-1, 0, 1_000_000)
	case argStatus:
		f.status, err = f.parseNumber(http.StatusOK, http.StatusOK, 599)
	case argLatency:
		err = f.latency.UnmarshalText([]byte(f.Argument))
	case argUsage:
		f.usage, err = parseUsage(f.Argument)
	}
	return err
}

// parseNumber reads the argument as a number between least and most.
func (f *Fault) parseNumber(otherwise, least, most int) (int, error) {
	if f.Argument == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(f.Argument)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is no argument for %s: write a number from %d to %d", f.Argument, f.Kind, least, most)
	}
	return n, nil
}

// defaultPause is the interval of keep_alive and drip without an argument.
const defaultPause = 100 * time.Millisecond

func (f *Fault) parsePause() error {
	f.wait = defaultPause
	if f.Argument == "" {
		return nil
	}
	wait, err := time.ParseDuration(f.Argument)
	if err != nil || wait <= 0 {
		return fmt.Errorf("%q is no argument for %s: write a duration such as 500ms or 2s", f.Argument, f.Kind)
	}
	f.wait = wait
	return nil
}

// parseWait reads how long the caller is told to wait, and in which form.
func (f *Fault) parseWait() error {
	if f.Argument == "" {
		return nil
	}
	duration, form, _ := strings.Cut(f.Argument, ":")
	wait, err := time.ParseDuration(duration)
	if err != nil || wait < 0 || !slices.Contains([]waitForm{waitUsual, waitSeconds, waitMillis, waitDate}, waitForm(form)) {
		return fmt.Errorf("%q is no argument for %s: write a duration such as 500ms or 2s, and :seconds, :ms or :date after it "+
			"for one header alone", f.Argument, f.Kind)
	}
	f.wait, f.waitAs = wait, waitForm(form)
	return nil
}

// shapes reports whether the fault only changes how an answer comes, or what it is said to cost.
func (f *Fault) shapes() bool {
	return f.Kind == kindLatency || f.Kind == kindDrip || f.Kind == kindUsage
}

// failure returns the error that the fault answers a call with, nil if it is of another kind.
func (f *Fault) failure(key string, q *question) *failure {
	e := &failure{wait: f.wait, waitAs: f.waitAs, message: "A fault was asked for at the simulated provider."}
	switch f.Kind {
	case kindQuota:
		e.kind = failQuota
		e.message = "You exceeded your current quota at the simulated provider, please check your plan and billing details."
	case kindDaily:
		e.kind = failDaily
		e.message = "The simulated provider's limit of requests per day is reached."
	case kindContextLength:
		e.kind, e.param = failTooLong, "messages"
		e.message = "This simulated model's maximum context length is 8192 tokens. Please reduce the length of the messages."
	case kindNoModel:
		name, _, _ := strings.Cut(q.model, "?")
		e.kind, e.param, e.model, e.message = failModel, "model", name, fmt.Sprintf("The model %q does not exist.", name)
	case kindEchoKey:
		e.kind, e.message = failKey, "Incorrect API key provided: "+key+". This error is simulated."
	case kindEchoPrompt:
		e.kind, e.status = failInvalid, http.StatusBadRequest
		e.message = "The simulated provider could not read this prompt: " + q.prompt().Instructions + "\n" + q.prompt().Text
	default:
		e.kind, e.status = failStatus, f.status
		if f.status == http.StatusTooManyRequests {
			e.kind = failRequests
		}
		if f.status == 0 || f.Kind == kindHTML {
			return nil
		}
	}
	return e
}
