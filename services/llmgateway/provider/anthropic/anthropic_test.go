package anthropic_test

import (
	"testing"

	"go.uber.org/goleak"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/anthropic"
	"pawl.internal/services/llmgateway/provider/formattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFormat(t *testing.T) {
	t.Parallel()
	formattest.Run(t, formattest.Format{
		New: func(client *provider.Client, base string, key config.Secret) (formattest.Sender, error) {
			return anthropic.New(client, base, key)
		},
		Base: anthropic.DefaultBase, Read: anthropic.Read, End: `"type": "message_stop"`,
	})
}

func FuzzRead(f *testing.F) { formattest.Fuzz(f, anthropic.Read) }
