package failure

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxMessage bounds what is passed on of a provider's message.
const maxMessage = 300

// Classify says what an HTTP answer means that was read to its end. It is None when the status is 2xx and the body holds no
// error; whether such a body is the answer that was asked for is for its reader to say (see Finish).
func Classify(d Dialect, status int, header http.Header, body []byte, now time.Time) Failure {
	s := read(status, body)
	if status < 300 && !s.found() {
		return Failure{}
	}
	f := decide(d, s)
	f.Wait = statedWait(header, body, now)
	f.Message = s.describe()
	return f
}

// Finish says what the end of an answer with status 200 means: the provider's own word, or one of the Finish constants. It
// is None for the words that stand for a good end, and for those that are not known.
func Finish(d Dialect, word string) Failure {
	s := said{status: http.StatusOK, finish: word}
	for _, r := range table() {
		if r.finish != nil && r.applies(d, s) {
			return r.failure(s, ending(word))
		}
	}
	return Failure{}
}

// ending says in words how an answer ended that is of no use.
func ending(word string) string {
	switch word {
	case "length", "max_output_tokens":
		return "the answer was cut off at its limit of tokens (finish reason " + word + "): raise max_output_tokens, or ask for less"
	case FinishRefusal:
		return "the model refused to answer"
	case FinishEmpty:
		return "the answer has no content"
	case FinishUnreadable:
		return "the answer is not in the form that the provider promises"
	case FinishTooLong:
		return "the answer is longer than is read"
	default:
		return "the answer ended with the finish reason " + word
	}
}

// Transport says what a connection's failure means: before the whole request was written, nothing can have been charged;
// after it, nobody knows.
func Transport(sent, timedOut bool, message string) Failure {
	switch {
	case !sent:
		return Failure{Class: Transient, Reason: ReasonNetwork, Message: message}
	case timedOut:
		return Failure{Class: Unsure, Reason: ReasonTimeout, Message: message}
	default:
		return Failure{Class: Unsure, Reason: ReasonNetwork, Message: message}
	}
}

func decide(d Dialect, s said) Failure {
	for _, r := range table() {
		if r.applies(d, s) {
			return r.failure(s, "")
		}
	}
	return Failure{Class: Transient, Reason: transientReason(s.status)}
}

func (r rule) failure(s said, message string) Failure {
	f := Failure{Class: r.class, Reason: r.reason, Message: message, AnswerAtFault: r.atFault}
	if f.Reason == "" {
		f.Reason = reasonOf(r.class, s.status)
	}
	return f
}

// describe is what the provider said, in one line of bounded length.
func (s said) describe() string {
	words := []string{fmt.Sprintf("status %d", s.status)}
	for _, word := range []string{s.code, s.kind} {
		if word != "" {
			words = append(words, word)
			break
		}
	}
	text := strings.Join(words, " ")
	if message := strings.Join(strings.Fields(s.message), " "); message != "" {
		text += ": " + message
	}
	return shorten(text)
}

// shorten cuts a text at a rune's border.
func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
