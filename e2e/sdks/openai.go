// Package sdks asks servers of the formats of OpenAI and Anthropic with the official client libraries for Go and Node.js, as
// programs do that know nothing of Pawl. Its checks take an address, a key and a model, so that they serve for the simulated
// provider and for Pawl's own endpoint; those of faults and batches are for the simulated provider alone. The libraries never
// retry here: what a server says is what is looked at.
package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
)

// Target is a server to ask.
type Target struct {
	// BaseURL is what the library takes: for OpenAI's with /v1, for Anthropic's without.
	BaseURL string
	Key     string
	Model   string
}

const question = "The total price is EUR 75. How much is that?"

// amountSchema is that of an answer, or of a tool's arguments.
func amountSchema() map[string]any {
	return map[string]any{
		"type": "object", "properties": map[string]any{"amount": map[string]any{"type": "number"}},
		"required": []string{"amount"}, "additionalProperties": false,
	}
}

// requireAmount checks JSON of that schema.
func requireAmount(t *testing.T, source string) {
	t.Helper()
	var answer struct {
		Amount float64 `json:"amount"`
	}
	require.NoError(t, json.Unmarshal([]byte(source), &answer), source)
	require.InDelta(t, 75, answer.Amount, 0)
}

func (s Target) openAI(more ...option.RequestOption) openai.Client {
	usual := []option.RequestOption{option.WithBaseURL(s.BaseURL), option.WithAPIKey(s.Key), option.WithMaxRetries(0)}
	return openai.NewClient(append(usual, more...)...)
}

func (s Target) chat() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: s.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	}
}

// CheckOpenAIGo asks a server with OpenAI's library for Go: chats whole and streamed, structured output, embeddings, models,
// and the errors that every server of this form has.
func CheckOpenAIGo(t *testing.T, baseURL, key, model string) {
	t.Helper()
	s := Target{baseURL, key, model}
	t.Run("chat", s.OpenAIChat)
	t.Run("stream", s.OpenAIStream)
	t.Run("structured", s.OpenAIStructured)
	t.Run("embeddings", s.OpenAIEmbeddings)
	t.Run("models", s.OpenAIModels)
	t.Run("errors", s.OpenAIErrors)
}

// OpenAIChat asks for one whole answer.
func (s Target) OpenAIChat(t *testing.T) {
	client := s.openAI()
	answer, err := client.Chat.Completions.New(t.Context(), s.chat())
	require.NoError(t, err)
	require.Len(t, answer.Choices, 1)
	require.NotEmpty(t, answer.ID)
	require.Equal(t, "stop", answer.Choices[0].FinishReason)
	require.NotEmpty(t, answer.Choices[0].Message.Content)
	require.Positive(t, answer.Usage.PromptTokens)
	require.Equal(t, answer.Usage.PromptTokens+answer.Usage.CompletionTokens, answer.Usage.TotalTokens)
}

// OpenAIStream asks for the same answer streamed, and puts it together.
func (s Target) OpenAIStream(t *testing.T) {
	client := s.openAI()
	asked := s.chat()
	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)}
	stream := client.Chat.Completions.NewStreaming(t.Context(), asked)
	var whole openai.ChatCompletionAccumulator
	chunks := 0
	for stream.Next() {
		require.True(t, whole.AddChunk(stream.Current()))
		chunks++
	}
	require.NoError(t, stream.Err())
	require.Greater(t, chunks, 2)
	require.Len(t, whole.Choices, 1)
	require.Equal(t, "stop", whole.Choices[0].FinishReason)
	require.Positive(t, whole.Usage.CompletionTokens)
	answer, err := client.Chat.Completions.New(t.Context(), s.chat())
	require.NoError(t, err)
	require.Equal(t, answer.Choices[0].Message.Content, whole.Choices[0].Message.Content)
}

// OpenAIStructured asks for an answer of a schema.
func (s Target) OpenAIStructured(t *testing.T) {
	client := s.openAI()
	asked := s.chat()
	asked.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "answer", Strict: param.NewOpt(true), Schema: amountSchema(),
		}},
	}
	answer, err := client.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	requireAmount(t, answer.Choices[0].Message.Content)
}

// OpenAITools lets the model call a function, and hands it the function's result.
func (s Target) OpenAITools(t *testing.T) {
	client := s.openAI()
	asked := s.chat()
	asked.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "convert", Parameters: amountSchema(),
	})}
	answer, err := client.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, "tool_calls", answer.Choices[0].FinishReason)
	require.Len(t, answer.Choices[0].Message.ToolCalls, 1)
	call := answer.Choices[0].Message.ToolCalls[0]
	require.Equal(t, "convert", call.Function.Name)
	requireAmount(t, call.Function.Arguments)
	asked.Messages = append(asked.Messages, answer.Choices[0].Message.ToParam(), openai.ToolMessage("82 dollars", call.ID))
	answer, err = client.Chat.Completions.New(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, "stop", answer.Choices[0].FinishReason)
	require.NotEmpty(t, answer.Choices[0].Message.Content)
}

// OpenAIEmbeddings asks for vectors.
func (s Target) OpenAIEmbeddings(t *testing.T) {
	client := s.openAI()
	answer, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: s.Model, Dimensions: param.NewOpt(int64(16)), Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	require.NoError(t, err)
	require.Len(t, answer.Data, 2)
	for _, e := range answer.Data {
		require.Len(t, e.Embedding, 16)
		sum := 0.0
		for _, x := range e.Embedding {
			sum += x * x
		}
		require.InDelta(t, 1, sum, 1e-4)
	}
	require.Positive(t, answer.Usage.PromptTokens)
}

// OpenAIModels looks for the model in the list.
func (s Target) OpenAIModels(t *testing.T) {
	client := s.openAI()
	models := client.Models.ListAutoPaging(t.Context())
	var names []string
	for models.Next() {
		names = append(names, models.Current().ID)
	}
	require.NoError(t, models.Err())
	require.Contains(t, names, s.Model)
}

// OpenAIErrors makes the mistakes of callers, and reads how the library tells of them.
func (s Target) OpenAIErrors(t *testing.T) {
	stranger := s
	stranger.Key = "no-such-key"
	s.openAIError(t, stranger.chat(), stranger.openAI(), http.StatusUnauthorized, "invalid_api_key")
	unknown := s.chat()
	unknown.Model = "no-such-model"
	s.openAIError(t, unknown, s.openAI(), http.StatusNotFound, "model_not_found")
	empty := s.chat()
	empty.Messages = []openai.ChatCompletionMessageParamUnion{}
	s.openAIError(t, empty, s.openAI(), http.StatusBadRequest, anyCode)
}

// anyCode is for errors whose code is the server's own affair.
const anyCode = "*"

// openAIError asks for what fails.
func (s Target) openAIError(t *testing.T, asked openai.ChatCompletionNewParams, client openai.Client, status int, code string) {
	t.Helper()
	_, err := client.Chat.Completions.New(t.Context(), asked)
	failed, is := errors.AsType[*openai.Error](err)
	require.True(t, is, "%v", err)
	require.Equal(t, status, failed.StatusCode, failed.RawJSON())
	if code != anyCode {
		require.Equal(t, code, failed.Code, failed.RawJSON())
	}
	require.NotEmpty(t, failed.Message)
	require.NotEmpty(t, failed.Type)
	require.NotEmpty(t, failed.Response.Header.Get("X-Request-Id"))
	require.NotContains(t, failed.RawJSON(), "no-such-key")
}

// openAIFault asks a model whose name carries a fault.
func (s Target) openAIFault(ctx context.Context, fault string) error {
	client := s.openAI()
	asked := s.chat()
	asked.Model = s.Model + "?" + fault
	_, err := client.Chat.Completions.New(ctx, asked)
	return err
}
