package failure

import (
	"net/http"
	"strings"
	"time"
)

// Classify says what an HTTP answer means that was read to its end. It is None when the status is 2xx and the body holds no
// error; whether such a body is the answer that was asked for is for its reader to say (see Finish).
func Classify(d Dialect, status int, header http.Header, body []byte, now time.Time) Failure {
	s := read(status, body)
	s.header = header
	if status < 300 && !s.found() {
		return Failure{}
	}
	f := decide(d, s, now)
	f.Message = s.describe()
	return f
}

// ClassifyEvent says what an event of a stream means, or a line of one, whose status was 200 before the error came. It is
// None for an event that holds no error.
func ClassifyEvent(d Dialect, event []byte, header http.Header, now time.Time) Failure {
	return Classify(d, http.StatusOK, header, event, now)
}

// decide applies the table, and adds the wait: the longest of those that the provider states and that its rules know.
func decide(d Dialect, s said, now time.Time) Failure {
	for _, r := range rules(d) {
		if !r.applies(s) {
			continue
		}
		f := r.failure(s)
		f.Wait = statedWait(s, now)
		if r.until != nil {
			f.Wait = max(f.Wait, until(r.until(s, now), now))
		}
		if f.Wait > 0 {
			f.ResumeAt = now.Add(f.Wait).UTC()
		}
		return f
	}
	return Failure{Class: Transient, Reason: transientReason(s.status)}
}

// Finish says what the end of an answer with status 200 means: the provider's own word, or one of the Finish constants. It
// is None for the words that stand for a good end, and for those that are not known.
func Finish(d Dialect, word string) Failure {
	if word == "" {
		return Failure{}
	}
	s := said{status: http.StatusOK, finish: word}
	for _, r := range rules(d) {
		if r.ends() && r.applies(s) {
			f := r.failure(s)
			f.Message = forPeople(ending(word))
			return f
		}
	}
	return Failure{}
}

// ending says in words how an answer ended that is of no use.
func ending(word string) string {
	if reason, blocked := strings.CutPrefix(word, FinishBlocked); blocked {
		return "the provider refused the prompt (block reason " + reason + ")"
	}
	switch word {
	case "length", "max_output_tokens", "max_tokens", "MAX_TOKENS":
		return "the answer was cut off at its limit of tokens (finish reason " + word + "): raise max_output_tokens, or ask for less"
	case FinishRefusal:
		return "the model refused to answer"
	case FinishEmpty:
		return "the answer has no content"
	case FinishUnreadable:
		return "the answer is not in the form that the provider promises"
	case FinishTooLong:
		return "the answer is longer than is read"
	case FinishCut:
		return "the streamed answer ended before it was whole"
	default:
		return "the answer ended with the finish reason " + word
	}
}

// Transport says what a connection's failure means: before the whole request was written, nothing can have been charged;
// after it, nobody knows.
func Transport(sent, timedOut bool, message string) Failure {
	message = forPeople(message)
	switch {
	case !sent:
		return Failure{Class: Transient, Reason: ReasonNetwork, Message: message}
	case timedOut:
		return Failure{Class: Unsure, Reason: ReasonTimeout, Message: message}
	default:
		return Failure{Class: Unsure, Reason: ReasonNetwork, Message: message}
	}
}

// Cancel is the failure of a request that we ended ourselves.
func Cancel() Failure { return Failure{Class: Cancelled, Reason: ReasonCancelled} }
