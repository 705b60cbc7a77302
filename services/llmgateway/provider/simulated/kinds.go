package simulated

import (
	"fmt"
	"strings"
)

const (
	kindQuota         = "quota"
	kindDaily         = "daily"
	kindContextLength = "context_length"
	kindNoModel       = "model_not_found"
	kindEchoKey       = "echo_key"
	kindEchoPrompt    = "echo_prompt"
	kindErrorIn200    = "error_in_200"
	kindErrorEvent    = "error_event"
	kindHang          = "hang"
	kindHangHeaders   = "hang_headers"
	kindHangBody      = "hang_body"
	kindHold          = "hold"
	kindKeepAlive     = "keep_alive"
	kindCut           = "cut"
	kindCutHeaders    = "cut_headers"
	kindCutBody       = "cut_body"
	kindUnfinished    = "unfinished"
	kindNotJSON       = "not_json"
	kindHTML          = "html"
	kindEmpty         = "empty"
	kindTruncated     = "truncated"
	kindContentFilter = "content_filter"
	kindRefusal       = "refusal"
	kindBadSchema     = "bad_schema"
	kindNoUsage       = "no_usage"
	kindWrongUsage    = "wrong_usage"
	kindReply         = "reply"
	kindLatency       = "latency"
	kindDrip          = "drip"
	kindUsage         = "usage"
)

// argument is what a kind takes after its equals sign.
type argument int

const (
	argNone    argument = iota
	argPause            // a duration
	argWait             // what the caller is told to wait
	argDeltas           // a number of deltas
	argStatus           // a status
	argLatency          // a Latency
	argUsage            // a usage
)

// kind is a sort of fault.
type kind struct {
	name     string
	argument argument
	about    string
}

// kinds lists all but the statuses.
func kinds() []kind {
	return []kind{
		{kindQuota, argNone, "the account has no money left: 429 insufficient_quota or what the format has for it, without a wait"},
		{kindDaily, argWait, "429 for a limit of the day; argument: the wait, as of a status"},
		{kindContextLength, argNone, "400, the prompt is too long"},
		{kindNoModel, argNone, "404, there is no such model"},
		{kindEchoKey, argNone, "the key is refused, with the caller's API key in the message"},
		{kindEchoPrompt, argNone, "400 with the prompt in the message"},
		{kindErrorIn200, argNone, "status 200 with an error as the body, or as a stream's first event"},
		{kindErrorEvent, argDeltas, "an error event in the middle of a stream; argument: after so many deltas"},
		{kindHang, argNone, "no answer until the caller goes away"},
		{kindHangHeaders, argNone, "headers, and then nothing until the caller goes away"},
		{kindHangBody, argDeltas, "the answer stops in its middle until the caller goes away; argument: after so many deltas"},
		{kindHold, argNone, "as hang, but deleting the fault lets the request go on to its answer (not in a model's name)"},
		{kindKeepAlive, argPause, "blank lines or comments at this interval, and no answer; argument: the interval"},
		{kindCut, argNone, "the connection is closed before the answer begins"},
		{kindCutHeaders, argNone, "the connection is closed after the headers"},
		{kindCutBody, argDeltas, "the connection is closed in the middle of the answer; argument: after so many deltas"},
		{kindUnfinished, argDeltas, "the answer ends properly in its middle: half a document, or a stream without its end; argument: after so many deltas"},
		{kindNotJSON, argNone, "status 200 with plain text"},
		{kindHTML, argStatus, "a page of HTML; argument: its status, 200 if it is none"},
		{kindEmpty, argNone, "an answer with nothing inside: no choices, no content, no candidates"},
		{kindTruncated, argNone, "half of the answer, cut by a limit of tokens"},
		{kindContentFilter, argNone, "half of the answer, cut by a filter"},
		{kindRefusal, argNone, "a refusal in place of content"},
		{kindBadSchema, argNone, "JSON that breaks the schema that was asked for"},
		{kindNoUsage, argNone, "an answer that does not say what it cost"},
		{kindWrongUsage, argNone, "an answer with a usage that cannot be: more cached than prompt, and sums that do not add up"},
		{kindReply, argNone, "the fault's reply, as it is (not in a model's name)"},
		{kindLatency, argLatency, "the answer begins late; argument: a duration, or a median and a 99th percentile as 80ms~400ms"},
		{kindDrip, argPause, "the answer comes in small pieces; argument: the pause between them"},
		{kindUsage, argUsage, "the answer is said to cost exactly this; argument: prompt:120+cached:100+completion:7, also cache_write_5m, " +
			"cache_write_1h and reasoning; prompt counts all input, completion the reasoning"},
	}
}

func kindNames() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// helpWidth is how wide the text of FaultHelp is, beside the names.
const helpWidth = 60

// FaultHelp lists the kinds of faults for people, indented.
func FaultHelp() string {
	all := append([]kind{{"400 … 599", argWait, "an error with this status, as the format writes it; argument: the wait it tells of, " +
		"as 2s, and :seconds, :ms or :date after it for that header alone"}}, kinds()...)
	var help strings.Builder
	for _, k := range all {
		name := k.name
		for line := range wrapped(k.about, helpWidth) {
			fmt.Fprintf(&help, "  %-16s %s\n", name, line)
			name = ""
		}
	}
	return help.String()
}

// wrapped yields a text in lines of whole words.
func wrapped(text string, width int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && len(line)+len(word) >= width {
				if !yield(line) {
					return
				}
				line = ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		yield(line)
	}
}
