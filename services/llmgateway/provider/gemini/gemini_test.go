package gemini_test

import (
	"testing"

	"go.uber.org/goleak"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/formattest"
	"pawl.internal/services/llmgateway/provider/gemini"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFormat(t *testing.T) {
	t.Parallel()
	formattest.Run(t, formattest.Format{
		New: func(client *provider.Client, base string, key config.Secret) (formattest.Sender, error) {
			return gemini.New(client, base, key)
		},
		Base: gemini.DefaultBase, Read: gemini.Read, End: `"finishReason"`,
	})
}

func FuzzRead(f *testing.F) { formattest.Fuzz(f, gemini.Read) }
