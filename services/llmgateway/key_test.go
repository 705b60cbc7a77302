package llmgateway

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/golden"
)

// A key that came out differently in another version would buy every answer in flight again during an upgrade.
func TestKeysNeverChange(t *testing.T) {
	t.Parallel()
	run := uuid.MustParse("01935a00-0000-7000-8000-00000000002a")
	a, err := newAsk(&systemv1.GenerateRequest{
		Step: &systemv1.StepRef{RunId: run[:], Step: "поля\"~\u2028", Shard: 7, Generation: 2}, Ask: 3, Route: "default",
		Messages:     []*systemv1.Message{{Role: "system", Content: "<b>\u0000\n"}, {Role: "user", Content: "Договор 😀"}},
		OutputSchema: []byte(`{ "type":"object", "b":1.50, "a":[1e2, 12345678901234567890] }`),
		Params: &systemv1.SamplingParams{
			Temperature: proto.Float64(0.1), TopP: proto.Float64(1), MaxOutputTokens: proto.Int32(800),
			Stop: []string{"END"}, Seed: proto.Int64(9007199254740993),
		},
	})
	require.NoError(t, err)
	golden.Assert(t, "testdata/key.golden", []byte(string(a.request)+"\n"+a.name()+"\n"))
}

func TestWhatIsNotSetIsNotInTheKey(t *testing.T) {
	t.Parallel()
	step := &systemv1.StepRef{RunId: make([]byte, 16), Step: "s", Shard: -1}
	plain := &systemv1.GenerateRequest{Step: step, Route: "r", Messages: []*systemv1.Message{{Role: "user", Content: "hi"}}}
	a, err := newAsk(plain)
	require.NoError(t, err)
	require.JSONEq(t, `{"route":"r","messages":[{"role":"user","content":"hi"}]}`, string(a.request))

	seen := map[string]string{a.name(): "plain"}
	for name, change := range map[string]func(*systemv1.GenerateRequest){
		"part": func(r *systemv1.GenerateRequest) {
			r.Messages[0].Parts = []*systemv1.Part{{Kind: &systemv1.Part_Text{Text: "x"}}}
		},
		"image": func(r *systemv1.GenerateRequest) {
			r.Messages[0].Parts = []*systemv1.Part{{Kind: &systemv1.Part_ImageUrl{ImageUrl: "x"}}}
		},
		"call": func(r *systemv1.GenerateRequest) {
			r.Messages[0].ToolCalls = []*systemv1.ToolCall{{Id: "1", Name: "f"}}
		},
		"result":     func(r *systemv1.GenerateRequest) { r.Messages[0].ToolCallId = "1" },
		"tool":       func(r *systemv1.GenerateRequest) { r.Tools = []*systemv1.Tool{{Name: "f"}} },
		"parameters": func(r *systemv1.GenerateRequest) { r.Tools = []*systemv1.Tool{{Name: "f", Parameters: []byte(`{}`)}} },
		"choice":     func(r *systemv1.GenerateRequest) { r.ToolChoice = "required" },
		"embed":      func(r *systemv1.GenerateRequest) { r.Messages, r.Embed = nil, []string{"hi"} },
		"dimensions": func(r *systemv1.GenerateRequest) { r.Dimensions = proto.Int32(3) },
	} {
		request := proto.CloneOf(plain)
		change(request)
		a, err := newAsk(request)
		require.NoError(t, err, name)
		require.Empty(t, seen[a.name()], "%s has the key of another question", name)
		seen[a.name()] = name
	}
}

func TestQuestionsThatNobodyCouldBeAskedAreRefused(t *testing.T) {
	t.Parallel()
	step := &systemv1.StepRef{RunId: make([]byte, 16), Step: "s", Shard: -1}
	for name, request := range map[string]*systemv1.GenerateRequest{
		"nothing": {Step: step},
		"both":    {Step: step, Messages: []*systemv1.Message{{Role: "user", Content: "hi"}}, Embed: []string{"hi"}},
		"empty":   {Step: step, Messages: []*systemv1.Message{{Role: "user"}}},
		"tool":    {Step: step, Messages: []*systemv1.Message{{Role: "user", Content: "hi"}}, Tools: []*systemv1.Tool{{Name: "f", Parameters: []byte(`{"x":`)}}},
	} {
		_, err := newAsk(request)
		require.Error(t, err, name)
	}
}
