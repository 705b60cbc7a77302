package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
)

// uploadTime bounds the upload of a large batch.
const uploadTime = 10 * time.Minute

// BatchState is a batch as the REST API shows it.
type BatchState struct {
	BatchID string `json:"batch_id"`
	Status  string `json:"status"`
	Counts  struct {
		Total, Queued, Running, Done, Failed, Cancelled, Rejected int
	} `json:"counts"`
	CostSoFar json.Number `json:"cost_so_far_usd"`
}

// Ended reports whether all items have.
func (b BatchState) Ended() bool { return b.Status == "completed" || b.Status == "cancelled" }

// As is the same system as another tenant's client sees it.
func (s *System) As(tenant string) *System {
	s.t.Helper()
	key, err := intake.EnsureKey(s.t.Context(), s.DB, tenant, store.RoleAdmin, "")
	require.NoError(s.t, err)
	same, record := *s, *s.record
	record.APIKey = key
	same.record = &record
	return &same
}

// UploadBatch uploads n items, each of which is written as JSON, and returns the batch's id. It waits for the answer.
func (s *System) UploadBatch(pipeline string, n int, item func(i int) any) string {
	s.t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i := range n {
		require.NoError(s.t, encoder.Encode(item(i)))
	}
	header := s.Header(fmt.Sprintf("batch-%d", time.Now().UnixNano()))
	header.Set("Content-Type", "application/jsonl")
	patient := &http.Client{Timeout: uploadTime}
	response, err := exchangeWith(s.t.Context(), patient, http.MethodPost,
		s.record.REST+"/v1/batches:upload?pipeline="+url.QueryEscape(pipeline), header, lines.Bytes())
	require.NoError(s.t, err)
	var answer struct {
		BatchID string `json:"batch_id"`
		Created int
	}
	require.NoError(s.t, response.Decode(&answer))
	require.Equal(s.t, n, answer.Created)
	return answer.BatchID
}

// Batch returns how a batch stands.
func (s *System) Batch(id string) (batch BatchState, err error) {
	return batch, s.get("/v1/batches/"+id, &batch)
}

// CancelBatch cancels a batch, and returns when all its runs have ended.
func (s *System) CancelBatch(id string) BatchState {
	s.t.Helper()
	require.NoError(s.t, s.Do(http.MethodPost, "/v1/batches/"+id+":cancel", "", map[string]any{"reason": "enough"}).Decode(nil))
	return s.AwaitBatch(id)
}

// AwaitBatch waits until all items of a batch have ended.
func (s *System) AwaitBatch(id string) (batch BatchState) {
	s.t.Helper()
	Eventually(s.t, func() (err error) {
		if batch, err = s.Batch(id); err == nil && !batch.Ended() {
			err = fmt.Errorf("the batch is %+v", batch)
		}
		return err
	})
	return batch
}
