package sdks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// CheckOpenAIGoFaults asks the simulated provider for the faults that providers have, and reads how the library tells of them.
func CheckOpenAIGoFaults(t *testing.T, baseURL, key, model string) {
	t.Helper()
	s := Target{baseURL, key, model}
	for fault, want := range map[string]struct {
		status     int
		kind, code string
	}{
		"429=2s":         {http.StatusTooManyRequests, "requests", "rate_limit_exceeded"},
		"quota":          {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"},
		"context_length": {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"},
		"403":            {http.StatusForbidden, "invalid_request_error", ""},
		"500":            {http.StatusInternalServerError, "server_error", ""},
		"503":            {http.StatusServiceUnavailable, "service_unavailable_error", "server_is_overloaded"},
	} {
		t.Run(fault, func(t *testing.T) {
			failed, is := errors.AsType[*openai.Error](s.openAIFault(t.Context(), fault))
			require.True(t, is)
			require.Equal(t, want.status, failed.StatusCode)
			require.Equal(t, want.kind, failed.Type)
			require.Equal(t, want.code, failed.Code)
			require.NotEmpty(t, failed.Response.Header.Get("X-Request-Id"))
			if fault == "429=2s" {
				require.Equal(t, "2", failed.Response.Header.Get("Retry-After"))
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		err := s.openAIFault(t.Context(), "cut")
		_, is := errors.AsType[*openai.Error](err)
		require.Error(t, err)
		require.False(t, is, "a dead connection is no answer: %v", err)
	})
	t.Run("cut stream", func(t *testing.T) {
		client := s.openAI()
		asked := s.chat()
		asked.Model = s.Model + "?cut_body=1"
		stream := client.Chat.Completions.NewStreaming(t.Context(), asked)
		chunks := 0
		for stream.Next() {
			chunks++
		}
		require.Equal(t, 2, chunks, "the role, and one delta")
		require.ErrorIs(t, stream.Err(), io.ErrUnexpectedEOF)
	})
}

// CheckOpenAIGoBatch sends a batch through its stages: a file, the batch, its output and its errors.
func CheckOpenAIGoBatch(t *testing.T, baseURL, key, model string) {
	t.Helper()
	client := Target{baseURL, key, model}.openAI()
	var lines bytes.Buffer
	for id, name := range map[string]string{"good": model, "bad": model + "?500"} {
		fmt.Fprintf(&lines, `{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":%q}]}}`+"\n", id, name, question)
	}
	file, err := client.Files.New(t.Context(), openai.FileNewParams{
		File: openai.File(&lines, "input.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	require.NoError(t, err)
	started, err := client.Batches.New(t.Context(), openai.BatchNewParams{
		InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
	})
	require.NoError(t, err)
	batch := started
	harness.Eventually(t, func() error {
		batch, err = client.Batches.Get(t.Context(), started.ID)
		if err == nil && batch.Status != openai.BatchStatusCompleted {
			err = fmt.Errorf("the batch is %s", batch.Status)
		}
		return err
	})
	require.EqualValues(t, 1, batch.RequestCounts.Completed)
	require.EqualValues(t, 1, batch.RequestCounts.Failed)
	require.WithinDuration(t, time.Unix(batch.CreatedAt, 0).Add(24*time.Hour), time.Unix(batch.ExpiresAt, 0), time.Second)
	for id, of := range map[string]struct {
		file   string
		status int
	}{"good": {batch.OutputFileID, http.StatusOK}, "bad": {batch.ErrorFileID, http.StatusInternalServerError}} {
		response, err := client.Files.Content(t.Context(), of.file)
		require.NoError(t, err)
		var line struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
			} `json:"response"`
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&line))
		require.NoError(t, response.Body.Close())
		require.Equal(t, id, line.CustomID)
		require.Equal(t, of.status, line.Response.Status)
	}
}
