package llmgateway

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
)

const (
	// framing is what a message costs in tokens besides its text.
	framing = 8
	// leastLeft is how many bytes of the last message must be left for the question to be worth asking.
	leastLeft = 200
)

// fit makes the request's messages fit the target's max_input_tokens, and reports whether they do. What the call's key and its
// stored question say is the question as it was asked.
func (r *request) fit() bool {
	a := r.flight.ask
	r.messages = a.req.GetMessages()
	if r.target.MaxInputTokens == 0 {
		return true
	}
	other := max(0, a.bytes-textOf(r.messages))
	messages, fits := shorten(r.messages, r.target.MaxInputTokens-price.UsualTokens(other))
	if before, after := textOf(r.messages), textOf(messages); after < before {
		r.note = fmt.Sprintf("asked with %d of the question's %d bytes, because the target has max_input_tokens", after, before)
	}
	r.messages = messages
	return fits
}

// shorten makes messages fit into about so many tokens, at four bytes each. System messages stay as they are. Of the others
// the oldest are left out first, and the last one never; answers of tools go with the call that they answer. If that is not
// enough, the middle of the last message is replaced by a mark, at the borders of characters. False if even that does not fit.
func shorten(messages []*systemv1.Message, tokens int64) ([]*systemv1.Message, bool) {
	kept := append([]*systemv1.Message(nil), messages...)
	for tokensOf(kept) > tokens {
		i := oldest(kept)
		if i < 0 {
			return cutLast(kept, tokens)
		}
		kept = append(kept[:i], kept[i+1:]...)
		for i < len(kept)-1 && kept[i].GetRole() == "tool" {
			kept = append(kept[:i], kept[i+1:]...)
		}
	}
	return kept, true
}

// oldest finds the oldest message that may be left out; -1 if there is none.
func oldest(messages []*systemv1.Message) int {
	for i, m := range messages[:max(0, len(messages)-1)] {
		if m.GetRole() != "system" {
			return i
		}
	}
	return -1
}

func cutLast(messages []*systemv1.Message, tokens int64) ([]*systemv1.Message, bool) {
	if len(messages) == 0 {
		return messages, false
	}
	const bytesEach = 4
	last := messages[len(messages)-1]
	text := last.GetContent()
	mark := fmt.Sprintf("\n[… about %d characters are left out here …]\n", len([]rune(text)))
	room := int((tokens-tokensOf(messages[:len(messages)-1])-framing)*bytesEach) - len(mark)
	if room < leastLeft {
		return messages, false
	}
	head := strings.ToValidUTF8(text[:room/2], "")
	tail := strings.ToValidUTF8(text[len(text)-room/2:], "")
	short, ok := proto.Clone(last).(*systemv1.Message)
	if !ok {
		return messages, false
	}
	missing := len([]rune(text)) - len([]rune(head)) - len([]rune(tail))
	short.Content = fmt.Sprintf("%s\n[… %d characters are left out here …]\n%s", head, missing, tail)
	return append(messages[:len(messages)-1:len(messages)-1], short), true
}

func tokensOf(messages []*systemv1.Message) int64 {
	return price.UsualTokens(textOf(messages)) + int64(len(messages))*framing
}

// textOf is how many bytes of text the messages have.
func textOf(messages []*systemv1.Message) int {
	bytes := 0
	for _, m := range messages {
		bytes += len(m.GetContent())
		for _, p := range m.GetParts() {
			bytes += len(p.GetText())
		}
		for _, c := range m.GetToolCalls() {
			bytes += len(c.GetArguments())
		}
	}
	return bytes
}

// tooLong is why a target is not asked for which the question cannot be made short enough.
func tooLong(t catalog.Target) failure.Failure {
	return failure.Failure{
		Class: failure.Context, Reason: failure.ReasonContext,
		Message: fmt.Sprintf("the question does not fit into the %d tokens that %s is asked at most, however it is cut", t.MaxInputTokens, t.Name()),
	}
}
