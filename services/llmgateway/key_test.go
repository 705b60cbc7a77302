package llmgateway

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/golden"
)

// A key that came out differently in another version would buy every answer in flight again during an upgrade.
func TestKeysNeverChange(t *testing.T) {
	t.Parallel()
	run := uuid.MustParse("01935a00-0000-7000-8000-00000000002a")
	a, err := newAsk(&systemv1.GenerateRequest{
		Step: &systemv1.StepRef{RunId: run[:], Step: "поля\"~\u2028", Shard: 7, Generation: 2}, Ask: 3, Route: "default",
		Messages:     []*pawlv1.ChatMessage{{Role: "system", Content: "<b>\u0000\n"}, {Role: "user", Content: "Договор 😀"}},
		OutputSchema: []byte(`{ "type":"object", "b":1.50, "a":[1e2, 12345678901234567890] }`),
		Params: &systemv1.SamplingParams{
			Temperature: proto.Float64(0.1), TopP: proto.Float64(1), MaxOutputTokens: proto.Int32(800),
			Stop: []string{"END"}, Seed: proto.Int64(9007199254740993),
		},
	})
	require.NoError(t, err)
	golden.Assert(t, "testdata/key.golden", []byte(string(a.request)+"\n"+a.name()+"\n"))
}
