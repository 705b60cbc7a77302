package llmgateway

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// conversation makes messages from "role:text", a text "N*c" being c repeated.
func conversation(words ...string) []*systemv1.Message {
	var list []*systemv1.Message
	for _, word := range words {
		role, text, _ := strings.Cut(word, ":")
		list = append(list, &systemv1.Message{Role: role, Content: text})
	}
	return list
}

func rolesOf(messages []*systemv1.Message) string {
	var words []string
	for _, m := range messages {
		words = append(words, m.GetRole()+":"+m.GetContent()[:1])
	}
	return strings.Join(words, " ")
}

func TestTheOldestMessagesAreLeftOutFirst(t *testing.T) {
	t.Parallel()
	long := func(word string) string { return word + strings.Repeat(".", 399) } // 100 tokens, and 8 for the message
	all := conversation(
		"system:"+long("s"), "user:"+long("1"), "assistant:"+long("2"), "tool:"+long("3"), "tool:"+long("4"), "system:"+long("t"),
		"user:"+long("5"), "assistant:"+long("6"), "user:"+long("7"),
	)
	for _, c := range []struct {
		tokens int64
		want   string
	}{
		{10 * 109, "system:s user:1 assistant:2 tool:3 tool:4 system:t user:5 assistant:6 user:7"},
		{8 * 109, "system:s assistant:2 tool:3 tool:4 system:t user:5 assistant:6 user:7"},
		{7 * 109, "system:s system:t user:5 assistant:6 user:7"}, // the tools' answers go with their call
		{4 * 109, "system:s system:t assistant:6 user:7"},
		{3 * 109, "system:s system:t user:7"},
	} {
		got, ok := shorten(all, c.tokens)
		require.True(t, ok)
		require.Equal(t, c.want, rolesOf(got), "%d tokens", c.tokens)
		require.LessOrEqual(t, tokensOf(got), c.tokens)
		require.Len(t, all, 9, "the question stays as it is")
	}
}

func TestTheMiddleOfTheLastMessageIsCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("начало ", 500) + strings.Repeat("середина ", 5000) + strings.Repeat("конец ", 500)
	all := conversation("system:be brief", "user:old", "user:"+text)
	for _, tokens := range []int64{300, 301, 302, 1000, 5000} {
		got, ok := shorten(all, tokens)
		require.True(t, ok)
		require.Equal(t, "system:b", rolesOf(got[:1]))
		require.Len(t, got, 2)
		short := got[1].GetContent()
		require.LessOrEqual(t, tokensOf(got), tokens)
		require.Greater(t, tokensOf(got), tokens*9/10-20, "no more than must be is cut")
		require.True(t, utf8.ValidString(short))
		require.True(t, strings.HasPrefix(short, "начало "))
		require.True(t, strings.HasSuffix(short, "конец "))
		require.Contains(t, short, " characters are left out here …]")
		require.Equal(t, text, all[2].GetContent(), "the question stays as it is")
	}
	_, ok := shorten(all, 60)
	require.False(t, ok, "a few words are not worth asking")
	_, ok = shorten(conversation("system:"+text), 300)
	require.True(t, ok, "the last one is cut whatever its role")
	_, ok = shorten(conversation("system:"+text, "user:a"), 300)
	require.False(t, ok, "system messages are not")
}
