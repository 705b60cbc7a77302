package sdks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

func (s Target) anthropic() anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(s.BaseURL), option.WithAPIKey(s.Key), option.WithMaxRetries(0))
}

func (s Target) message() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: s.Model, MaxTokens: 500,
		System:   []anthropic.TextBlockParam{{Text: "Be brief."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	}
}

// CheckAnthropicGo asks a server with Anthropic's library for Go: messages whole and streamed, structured output, tools, models,
// and the errors that every server of this form has.
func CheckAnthropicGo(t *testing.T, baseURL, key, model string) {
	t.Helper()
	s := Target{baseURL, key, model}
	t.Run("message", s.AnthropicMessage)
	t.Run("stream", s.AnthropicStream)
	t.Run("structured", s.AnthropicStructured)
	t.Run("tools", s.AnthropicTools)
	t.Run("models", s.AnthropicModels)
	t.Run("errors", s.AnthropicErrors)
}

// AnthropicMessage asks for one whole answer.
func (s Target) AnthropicMessage(t *testing.T) {
	client := s.anthropic()
	answer, err := client.Messages.New(t.Context(), s.message())
	require.NoError(t, err)
	require.Equal(t, anthropic.StopReasonEndTurn, answer.StopReason)
	require.Len(t, answer.Content, 1)
	require.NotEmpty(t, answer.Content[0].Text)
	require.Positive(t, answer.Usage.InputTokens)
	require.Positive(t, answer.Usage.OutputTokens)
}

// AnthropicStream asks for the same answer streamed, and puts it together.
func (s Target) AnthropicStream(t *testing.T) {
	client := s.anthropic()
	stream := client.Messages.NewStreaming(t.Context(), s.message())
	var whole anthropic.Message
	for stream.Next() {
		require.NoError(t, whole.Accumulate(stream.Current()))
	}
	require.NoError(t, stream.Err())
	answer, err := client.Messages.New(t.Context(), s.message())
	require.NoError(t, err)
	require.Equal(t, answer.Content[0].Text, whole.Content[0].Text)
	require.Equal(t, answer.StopReason, whole.StopReason)
	require.Equal(t, answer.Usage.InputTokens, whole.Usage.InputTokens)
	require.Equal(t, answer.Usage.OutputTokens, whole.Usage.OutputTokens, "what the last event says is all of it")
}

// AnthropicStructured asks for an answer of a schema.
func (s Target) AnthropicStructured(t *testing.T) {
	client := s.anthropic()
	asked := s.message()
	asked.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: amountSchema()}}
	answer, err := client.Messages.New(t.Context(), asked)
	require.NoError(t, err)
	requireAmount(t, answer.Content[0].Text)
}

// AnthropicTools makes the model call a tool, whole and streamed, and hands it the tool's result.
func (s Target) AnthropicTools(t *testing.T) {
	client := s.anthropic()
	asked := s.message()
	asked.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
		Properties: amountSchema()["properties"], Required: []string{"amount"},
	}, "convert")}
	asked.ToolChoice = anthropic.ToolChoiceParamOfTool("convert")
	answer, err := client.Messages.New(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, anthropic.StopReasonToolUse, answer.StopReason)
	call := answer.Content[0].AsToolUse()
	require.Equal(t, "convert", call.Name)
	requireAmount(t, string(call.Input))

	stream := client.Messages.NewStreaming(t.Context(), asked)
	var whole anthropic.Message
	for stream.Next() {
		require.NoError(t, whole.Accumulate(stream.Current()))
	}
	require.NoError(t, stream.Err())
	requireAmount(t, string(whole.Content[0].AsToolUse().Input))

	asked.ToolChoice = anthropic.ToolChoiceUnionParam{}
	asked.Messages = append(asked.Messages, answer.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(call.ID, "82 dollars", false)))
	answer, err = client.Messages.New(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, anthropic.StopReasonEndTurn, answer.StopReason)
}

// AnthropicModels looks for the model in the list.
func (s Target) AnthropicModels(t *testing.T) {
	client := s.anthropic()
	models := client.Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{})
	var names []string
	for models.Next() {
		names = append(names, models.Current().ID)
	}
	require.NoError(t, models.Err())
	require.Contains(t, names, s.Model)
}

// AnthropicErrors makes the mistakes of callers, and reads how the library tells of them.
func (s Target) AnthropicErrors(t *testing.T) {
	stranger := s
	stranger.Key = "no-such-key"
	_ = stranger.anthropicError(t, stranger.message(), http.StatusUnauthorized, "authentication_error")
	unknown := s.message()
	unknown.Model = "no-such-model"
	_ = s.anthropicError(t, unknown, http.StatusNotFound, "not_found_error")
	empty := s.message()
	empty.Messages = []anthropic.MessageParam{}
	_ = s.anthropicError(t, empty, http.StatusBadRequest, "invalid_request_error")
}

// anthropicError asks for what fails.
func (s Target) anthropicError(t *testing.T, asked anthropic.MessageNewParams, status int, kind string) *anthropic.Error {
	t.Helper()
	client := s.anthropic()
	_, err := client.Messages.New(t.Context(), asked)
	failed, is := errors.AsType[*anthropic.Error](err)
	require.True(t, is, "%v", err)
	require.Equal(t, status, failed.StatusCode, failed.RawJSON())
	require.EqualValues(t, kind, failed.Type())
	require.NotEmpty(t, failed.RequestID)
	require.Contains(t, failed.RawJSON(), failed.RequestID, "the header and the body name the same request")
	return failed
}

// CheckAnthropicGoFaults asks the simulated provider for the faults that providers have, and reads how the library tells of them.
func CheckAnthropicGoFaults(t *testing.T, baseURL, key, model string) {
	t.Helper()
	s := Target{baseURL, key, model}
	for fault, want := range map[string]struct {
		status int
		kind   string
	}{
		"429=2s": {http.StatusTooManyRequests, "rate_limit_error"}, "402": {http.StatusPaymentRequired, "billing_error"},
		"403": {http.StatusForbidden, "permission_error"}, "500": {http.StatusInternalServerError, "api_error"},
		"504": {http.StatusGatewayTimeout, "timeout_error"}, "529": {529, "overloaded_error"},
		"context_length": {http.StatusBadRequest, "invalid_request_error"},
	} {
		t.Run(fault, func(t *testing.T) {
			asked := s.message()
			asked.Model += "?" + fault
			failed := s.anthropicError(t, asked, want.status, want.kind)
			if fault == "429=2s" {
				require.Equal(t, "2", failed.Response.Header.Get("Retry-After"))
			}
		})
	}
	t.Run("error event", func(t *testing.T) {
		client := s.anthropic()
		asked := s.message()
		asked.Model += "?error_event=1"
		stream := client.Messages.NewStreaming(t.Context(), asked)
		deltas := 0
		for stream.Next() {
			if stream.Current().Type == "content_block_delta" {
				deltas++
			}
		}
		require.Equal(t, 1, deltas)
		require.ErrorContains(t, stream.Err(), "overloaded_error")
	})
}

// CheckAnthropicGoBatch sends a batch through its stages and reads its results.
func CheckAnthropicGoBatch(t *testing.T, baseURL, key, model string) {
	t.Helper()
	client := Target{baseURL, key, model}.anthropic()
	var asked anthropic.MessageBatchNewParams
	for _, id := range []string{"good", "bad"} {
		name := model
		if id == "bad" {
			name += "?529"
		}
		asked.Requests = append(asked.Requests, anthropic.MessageBatchNewParamsRequest{
			CustomID: id, Params: anthropic.MessageBatchNewParamsRequestParams{
				Model: name, MaxTokens: 100,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
			},
		})
	}
	started, err := client.Messages.Batches.New(t.Context(), asked)
	require.NoError(t, err)
	harness.Eventually(t, func() error {
		batch, err := client.Messages.Batches.Get(t.Context(), started.ID, anthropic.MessageBatchGetParams{})
		if err == nil && batch.ProcessingStatus != anthropic.MessageBatchProcessingStatusEnded {
			err = fmt.Errorf("the batch is %s", batch.ProcessingStatus)
		}
		return err
	})
	results := client.Messages.Batches.ResultsStreaming(t.Context(), started.ID, anthropic.MessageBatchResultsParams{})
	got := map[string]string{}
	for results.Next() {
		one := results.Current()
		got[one.CustomID] = one.Result.Type
		if one.CustomID == "good" {
			require.NotEmpty(t, one.Result.AsSucceeded().Message.Content[0].Text)
		} else {
			require.True(t, json.Valid([]byte(one.Result.RawJSON())))
			require.Contains(t, one.Result.RawJSON(), "overloaded_error")
		}
	}
	require.NoError(t, results.Err())
	require.Equal(t, map[string]string{"good": "succeeded", "bad": "errored"}, got)
}
