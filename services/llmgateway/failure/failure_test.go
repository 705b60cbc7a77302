package failure_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/failure"
)

var now = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)

// header makes a header of "Name: value" lines.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

// errorRow is an answer of a provider and what it must be taken for.
type errorRow struct {
	name   string
	status int
	body   string
	class  failure.Class
	reason string
	more   *more // nil: no headers, and nothing else is expected
}

// more is what few rows have.
type more struct {
	header  http.Header
	code    string // checked if set
	wait    time.Duration
	resume  time.Time // checked if set
	scope   failure.Scope
	retries int
}

// table is every row of every dialect.
func table() map[failure.Dialect][]errorRow {
	return map[failure.Dialect][]errorRow{
		failure.OpenAI: append(openAIRows(), otherRows()...), failure.Anthropic: anthropicRows(), failure.Gemini: geminiRows(),
	}
}

// shapeA is the body of an error in OpenAI's form.
func shapeA(kind, code, message string) string {
	return `{"error":{"message":"` + message + `","type":"` + kind + `","param":null,"code":"` + code + `"}}`
}

func TestEveryKnownError(t *testing.T) {
	t.Parallel()
	for d, rows := range table() {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				want := more{}
				if row.more != nil {
					want = *row.more
				}
				got := failure.Classify(d, row.status, want.header, []byte(row.body), now)
				require.Equal(t, row.class.String(), got.Class.String())
				require.Equal(t, row.reason, got.Reason)
				require.False(t, got.AnswerAtFault, "an error is not an answer")
				require.Equal(t, want.wait.String(), got.Wait.String())
				require.Equal(t, want.scope.String(), got.Scope.String())
				require.Equal(t, want.retries, got.MostRetries)
				require.Equal(t, want.wait > 0, !got.ResumeAt.IsZero())
				if !want.resume.IsZero() {
					require.Equal(t, want.resume, got.ResumeAt)
				}
				if want.code != "" {
					require.Equal(t, want.code, got.Code)
				}
				if row.status == http.StatusOK {
					require.Equal(t, got, failure.ClassifyEvent(d, []byte(row.body), want.header, now))
				}
			})
		}
	}
}

// endRow is how an answer ended, and what that means.
type endRow struct {
	dialect failure.Dialect
	words   []string
	class   failure.Class
	reason  string
	atFault bool
	retries int
}

func endRows() []endRow {
	words := func(list ...string) []string { return list }
	rows := []endRow{
		{failure.OpenAI, words("stop", "tool_calls", "function_call", "", "eos"), failure.None, "", false, 0},
		{failure.OpenAI, words("length", "max_output_tokens", "model_length"), failure.Truncated, "truncated", true, 0},
		{failure.OpenAI, words("content_filter"), failure.Content, "content_refused", true, 0},
		{failure.OpenAI, words("insufficient_system_resource"), failure.Overloaded, "provider_503", false, 0},
		{failure.OpenAI, words("error", "failed"), failure.Transient, "provider_500", false, 0},
		{failure.OpenAI, words(failure.FinishEmpty), failure.Transient, "answer_empty", true, 0},

		{failure.Anthropic, words("end_turn", "stop_sequence", "tool_use", "pause_turn"), failure.None, "", false, 0},
		{failure.Anthropic, words("max_tokens", "model_context_window_exceeded"), failure.Truncated, "truncated", true, 0},
		{failure.Anthropic, words("refusal"), failure.Content, "content_refused", true, 0},
		{failure.Anthropic, words(failure.FinishEmpty), failure.Transient, "answer_empty", true, 0},

		{failure.Gemini, words("STOP", "FINISH_REASON_UNSPECIFIED"), failure.None, "", false, 0},
		{failure.Gemini, words("MAX_TOKENS"), failure.Truncated, "truncated", true, 0},
		{failure.Gemini, words(
			"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
		), failure.Content, "content_refused", true, 0},
		{failure.Gemini, words("LANGUAGE", "OTHER", "NO_IMAGE"), failure.Invalid, "invalid_input", true, 0},
		{failure.Gemini, words("MALFORMED_FUNCTION_CALL"), failure.Transient, "json_validation_error", true, 1},
		{failure.Gemini, words("UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"), failure.Transient, "schema_mismatch", true, 1},
		{failure.Gemini, words(failure.FinishEmpty), failure.Transient, "answer_empty", true, 1},
	}
	for _, reason := range []string{
		"SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK",
	} {
		rows = append(rows, endRow{failure.Gemini, words(failure.FinishBlocked + reason), failure.Content, "content_refused", true, 0})
	}
	for _, d := range []failure.Dialect{failure.OpenAI, failure.Anthropic, failure.Gemini} {
		rows = append(
			rows,
			endRow{d, words(failure.FinishRefusal), failure.Content, "content_refused", true, 0},
			endRow{d, words(failure.FinishUnreadable), failure.Transient, "json_validation_error", false, 0},
			endRow{d, words(failure.FinishTooLong), failure.Invalid, "answer_too_long", true, 0},
			endRow{d, words(failure.FinishCut), failure.Unsure, "network", false, 0},
		)
	}
	return rows
}

func TestEveryEndOfAnAnswer(t *testing.T) {
	t.Parallel()
	for _, row := range endRows() {
		for _, word := range row.words {
			got := failure.Finish(row.dialect, word)
			require.Equal(t, row.class.String(), got.Class.String(), word)
			require.Equal(t, row.reason, got.Reason, word)
			require.Equal(t, row.atFault, got.AnswerAtFault, word)
			require.Equal(t, row.retries, got.MostRetries, word)
			require.Equal(t, row.class == failure.None, got.Message == "", word)
			require.False(t, strings.HasPrefix(word, "(") && strings.Contains(got.Message, word), "%s is a word of ours", word)
		}
	}
	require.Contains(t, failure.Finish(failure.OpenAI, "length").Message, "raise max_output_tokens")
	require.Contains(t, failure.Finish(failure.Gemini, failure.FinishBlocked+"JAILBREAK").Message, "(block reason JAILBREAK)")
}

func TestConnectionFailuresAreUnsureOnlyOnceTheRequestIsOut(t *testing.T) {
	t.Parallel()
	rows := []struct {
		sent, timedOut bool
		class          failure.Class
		reason         string
	}{
		{false, false, failure.Transient, "network"},
		{false, true, failure.Transient, "network"},
		{true, false, failure.Unsure, "network"},
		{true, true, failure.Unsure, "provider_timeout"},
	}
	for _, row := range rows {
		got := failure.Transport(row.sent, row.timedOut, "x")
		require.Equal(t, row.class.String(), got.Class.String())
		require.Equal(t, row.reason, got.Reason)
	}
	require.Equal(t, failure.Failure{Class: failure.Cancelled, Reason: "cancelled"}, failure.Cancel())
}

func TestStatedWaits(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration
	}{
		{"none", header(), "", 0},
		{"milliseconds", header("Retry-After-Ms: 1500"), "", 1500 * time.Millisecond},
		{"seconds", header("Retry-After: 3600"), "", time.Hour},
		{"fraction of seconds", header("Retry-After: 0.25"), "", 250 * time.Millisecond},
		{"HTTP date", header("Retry-After: Mon, 30 Nov 2026 12:00:22 GMT"), "", 22 * time.Second},
		{"date that has passed", header("Retry-After: Mon, 30 Nov 2026 11:00:00 GMT"), "", 0},
		{"the longest wins", header("Retry-After-Ms: 900", "Retry-After: 5"), "", 5 * time.Second},
		{"negative", header("Retry-After: -1"), "", 0},
		{"no number", header("Retry-After: NaN"), "", 0},
		{"an RFC 850 date", header("Retry-After: Monday, 30-Nov-26 12:00:22 GMT"), "", 22 * time.Second},
		{"a date to the nanosecond", header("Retry-After: 2027-11-29T12:00:00.000000001Z"), "", 364*24*time.Hour + time.Nanosecond},
		{"Go's durations", header("Retry-After: 1h2m3s"), "", time.Hour + 2*time.Minute + 3*time.Second},
		{"a negative duration", header("Retry-After: -5s"), "", 0},
		{"epoch in Retry-After", header("Retry-After: 1796040060"), "", time.Minute},
		{"an epoch that has passed", header("Retry-After: 1796039940"), "", 0},
		{"milliseconds that are no number", header("Retry-After-Ms: NaN", "Retry-After: 1"), "", time.Second},
		{"negative milliseconds", header("Retry-After-Ms: -1"), "", 0},
		{"more than any epoch", header("Retry-After: 1e300"), "", 366 * 24 * time.Hour},
		{"nonsense", header("Retry-After: soon"), "", 0},
		{"infinite", header("Retry-After: Inf"), "", 366 * 24 * time.Hour},
		{"exhausted requests", header("X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 6m0s"), "", 6 * time.Minute},
		{"exhausted tokens", header("X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 120ms"), "", 120 * time.Millisecond},
		{"both exhausted", header(
			"X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: 1s",
			"X-Ratelimit-Remaining-Tokens: 0", "X-Ratelimit-Reset-Tokens: 1h2m3s",
		), "", time.Hour + 2*time.Minute + 3*time.Second},
		{"not exhausted", header("X-Ratelimit-Remaining-Requests: 7", "X-Ratelimit-Reset-Requests: 6m0s"), "", 0},
		{"unknown to Azure", header("X-Ratelimit-Remaining-Requests: -1", "X-Ratelimit-Reset-Requests: 0"), "", 0},
		{"usage based", header(
			"X-Ratelimit-Remaining-Tokens_usage_based: 0", "X-Ratelimit-Reset-Tokens_usage_based: 2s",
		), "", 2 * time.Second},
		{"epoch milliseconds", header("X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1796040060000"), "", time.Minute},
		{"epoch seconds", header("X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1796040060"), "", time.Minute},
		{"RFC 3339", header(
			"Anthropic-Ratelimit-Tokens-Remaining: 0", "Anthropic-Ratelimit-Tokens-Reset: 2026-11-30T12:00:07Z",
		), "", 7 * time.Second},
		{"RFC 3339 that has passed", header(
			"Anthropic-Ratelimit-Tokens-Remaining: 0", "Anthropic-Ratelimit-Tokens-Reset: 2026-11-30T11:59:59Z",
		), "", 0},
		{"a subscription's epoch seconds", header(
			"Anthropic-Ratelimit-Unified-5h-Remaining: 0", "Anthropic-Ratelimit-Unified-5h-Reset: 1796043600",
		), "", time.Hour},
		{"Mistral", header("X-Ratelimitbysize-Remaining-Minute: 0", "Ratelimitbysize-Reset: 13"), "", 13 * time.Second},
		{"RetryInfo", header(), `{"error":{"code":429,"details":[
			{"@type":"type.googleapis.com/google.rpc.Help"},
			{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"22s"}]}}`, 22 * time.Second},
		{"RetryInfo with a fraction", header("Retry-After: 1"), `{"error":{"code":429,"details":[
			{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.250000001s"}]}}`, 1250000001 * time.Nanosecond},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := failure.Classify(failure.OpenAI, 429, row.header, []byte(row.body), now)
			require.Equal(t, row.want, got.Wait)
		})
	}
}

func TestMessagesAreOneLineAndBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ж", 1000)
	got := failure.Classify(failure.OpenAI, 400, http.Header{}, []byte(shapeA("a_type", "", `two\nlines `+long)), now)
	require.True(t, strings.HasPrefix(got.Message, "status 400 a_type: two lines ж"), got.Message)
	require.Less(t, len(got.Message), 310)
	require.NotContains(t, got.Message, "�")
}

func TestWhatLooksLikeAKeyIsTakenOut(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"sk-proj-abc**********wxyz", "AIzaSyD-1234567890abcdef", "gsk_1234567890abcdef"} {
		got := failure.Classify(failure.OpenAI, 401, nil, []byte(shapeA("x", "", "Incorrect API key provided: "+key+".")), now)
		require.Equal(t, "status 401 x: Incorrect API key provided: [key]", got.Message)
		require.NotContains(t, failure.Transport(true, false, "bad header "+key).Message, key)
		require.Empty(t, failure.Classify(failure.OpenAI, 401, nil, []byte(shapeA("", key, "x")), now).Code)
	}
}

// Codes stand in logs, so they are words, whatever a provider writes there.
// Providers repeat what they were asked; what has a form is not passed on.
func TestPersonalDataAreMasked(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"no: a@b.example, 4111 1111 1111 1111,\n+7 916 123-45-67"}}`
	got := failure.Classify(failure.OpenAI, 400, nil, []byte(body), time.Time{})
	require.Equal(t, "status 400: no: [EMAIL], [CARD], [PHONE]", got.Message)
	require.Equal(t, "proxy of [EMAIL] is away", failure.Transport(true, false, "proxy of a@b.example is away").Message)
}

func TestCodesAreWords(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"call +1 555 0100", "anna@example.com", "1300", strings.Repeat("a", 65), "a b", "ж"} {
		require.Equal(t, "the_type", failure.Classify(failure.OpenAI, 400, nil, []byte(shapeA("the_type", code, "x")), now).Code, code)
		require.Empty(t, failure.Classify(failure.OpenAI, 400, nil, []byte(shapeA(code, "", "x")), now).Code, code)
	}
}

func TestLogsDoNotGetTheMessage(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	f := failure.Classify(failure.OpenAI, 429, header("Retry-After: 2"), []byte(shapeA("rate_limit_error", "slow_down", "You said: my PIN is 1234")), now)
	require.Contains(t, f.Message, "1234")
	slog.New(slog.NewTextHandler(&text, nil)).Info("request failed", "failure", f)
	require.NotContains(t, text.String(), "1234")
	require.Contains(t, text.String(), "failure.class=RATE failure.reason=provider_429 failure.code=slow_down failure.wait=2s")
}

func TestScopesHaveWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range []failure.Scope{failure.ScopeAccount, failure.ScopeProject, failure.ScopeKey, failure.ScopeModel, 99} {
		seen[s.String()] = true
	}
	require.Len(t, seen, 5)
}

// The words that providers use for what is no fault of the server do not make a 5xx permanent, in any dialect.
func TestNo5xxIsPermanentWhateverItsBodySays(t *testing.T) {
	t.Parallel()
	for d := range table() {
		for _, rows := range table() {
			for _, row := range rows {
				for _, status := range []int{500, 501, 502, 503, 504, 507, 520, 524, 529, 599} {
					got := failure.Classify(d, status, nil, []byte(row.body), now)
					unsure := got.Class == failure.Unsure && status == http.StatusGatewayTimeout
					require.True(t, got.Class == failure.Transient || got.Class == failure.Overloaded || unsure, "%d %s: %s", status, row.body, got.Class)
				}
			}
		}
	}
}

func TestA401IsTheKeysWhateverItsTextSays(t *testing.T) {
	t.Parallel()
	for d := range table() {
		for _, rows := range table() {
			for _, row := range rows {
				got := failure.Classify(d, 401, nil, []byte(row.body), now)
				coded := strings.Contains(row.body, `"code":"`) || strings.Contains(row.body, `"reason":"`)
				require.True(t, got.Class == failure.Auth || coded, "%s: %s", row.body, got.Class)
			}
		}
	}
}

func FuzzClassify(f *testing.F) {
	for d, rows := range table() {
		for _, row := range rows {
			f.Add(uint8(d), row.status, row.body, "Retry-After", "1.5")
		}
	}
	f.Add(uint8(3), 429, `[{"error":{"details":{"violations":7}}}]`, "X-Ratelimit-Remaining-Tokens", "0")
	f.Add(uint8(0), 200, `{"error":[[[`, "Retry-After-Ms", "NaN")
	f.Fuzz(func(t *testing.T, dialect uint8, status int, body, name, value string) {
		d, h := failure.Dialect(dialect), http.Header{name: {value}, "X-Ratelimit-Reset-Tokens": {value}}
		got := failure.Classify(d, status, h, []byte(body), now)
		require.Equal(t, got.Class == failure.None, got.Reason == "")
		require.GreaterOrEqual(t, got.Wait, time.Duration(0))
		require.False(t, !got.ResumeAt.IsZero() && !got.ResumeAt.After(now))
		require.LessOrEqual(t, len(got.Message), 310)
		require.LessOrEqual(t, len(got.Code), 64)
		if status >= 500 && status < 600 {
			require.True(t, got.Class.Passing() && got.Class != failure.Daily || got.Class == failure.Unsure, got.Class.String())
		}
		failure.Finish(d, body)
		for _, room := range failure.Headroom(h, now) {
			require.GreaterOrEqual(t, room.Remaining, int64(0))
			require.GreaterOrEqual(t, room.Reset, time.Duration(0))
		}
	})
}

// A failure must not cost the table anew.
func BenchmarkClassify(b *testing.B) {
	body := []byte(shapeA("requests", "rate_limit_exceeded", "Rate limit reached: Limit 3, Used 3, Requested 1."))
	h := header("Retry-After: 1")
	b.ReportAllocs()
	for b.Loop() {
		failure.Classify(failure.OpenAI, 429, h, body, now)
	}
}
