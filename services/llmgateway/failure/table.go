package failure

import (
	"slices"
	"sync"
)

// Dialect is the family of a provider's errors. Each has its part of the table.
type Dialect uint8

// The dialects.
const (
	// OpenAI is spoken by OpenAI, Azure OpenAI, and everything that calls itself compatible.
	OpenAI Dialect = 1 + iota
	// Anthropic is spoken by the Messages API.
	Anthropic
	// Gemini is spoken by Google's Gemini API and Vertex AI.
	Gemini
)

// The words that stand for the end of an answer that has no finish reason of its own.
const (
	// FinishRefusal: the model declined in so many words.
	FinishRefusal = "(refusal)"
	// FinishEmpty: the answer has no content.
	FinishEmpty = "(empty)"
	// FinishUnreadable: the answer is not what the provider's format promises.
	FinishUnreadable = "(unreadable)"
	// FinishTooLong: the answer was longer than we read.
	FinishTooLong = "(too long)"
	// FinishCut: a streamed answer is over without a sign that it is whole.
	FinishCut = "(cut)"
	// FinishBlocked, followed by the provider's word for it: the prompt was refused before the model saw it.
	FinishBlocked = "blocked: "
)

// table is all that is known about providers' errors, by dialect. The first rule that applies decides, so within a stage
// (finish, code, kind, phrase, status) the narrower rule stands first.
type table struct{ openAI, anthropic, gemini []rule }

// theTable is made when it is first asked for, and then only read.
var theTable = sync.OnceValue(func() table { //nolint:gochecknoglobals // a constant that Go cannot write as one
	return table{
		openAI:    slices.Concat(openAIEnds(), commonEnds(), openAIErrors()),
		anthropic: slices.Concat(anthropicEnds(), commonEnds(), anthropicErrors()),
		gemini:    slices.Concat(geminiEnds(), commonEnds(), geminiErrors()),
	}
})

// rules returns the dialect's part. What is no dialect is taken for the one that most servers speak.
func rules(d Dialect) []rule {
	t := theTable()
	switch d {
	case Anthropic:
		return t.anthropic
	case Gemini:
		return t.gemini
	case OpenAI:
		return t.openAI
	}
	return t.openAI
}

// commonEnds are the ends for which we have the words.
func commonEnds() []rule {
	return []rule{
		{finish: one(FinishRefusal), class: Content, atFault: true},
		{finishLike: begins(FinishBlocked), class: Content, atFault: true},
		{finish: one(FinishEmpty), class: Transient, reason: ReasonEmpty, atFault: true},
		{finish: one(FinishUnreadable), class: Transient, reason: ReasonNotJSON},
		{finish: one(FinishTooLong), class: Invalid, reason: ReasonTooLong, atFault: true},
		{finish: one(FinishCut), class: Unsure, reason: ReasonNetwork},
	}
}
