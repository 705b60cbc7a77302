package openai_test

import (
	"testing"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/formattest"
	"pawl.internal/services/llmgateway/provider/openai"
)

func format(base string) formattest.Format {
	return formattest.Format{
		New: func(client *provider.Client, base string, key config.Secret) (formattest.Sender, error) {
			return openai.New(client, base, key)
		},
		Base: base, Read: openai.Read, End: `"finish_reason": "`,
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	formattest.Run(t, format("https://llm.example/v1"))
}

// OpenAI itself has another name for the bound on tokens, and holds models to schemas strictly where it can.
func TestOpenAIsOwnServer(t *testing.T) {
	t.Parallel()
	format(openai.DefaultBase).Requests(t, "request_openai", "plain", "schema", "schema_open", "stream")
}

func FuzzRead(f *testing.F) { formattest.Fuzz(f, openai.Read) }
