package orchestrator

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// mostFailures is how many reasons of failed items are shown.
const mostFailures = 20

// batchProto shows a batch.
func batchProto(b *store.Batch) *pawlv1.Batch {
	counts, cost := b.ByStatus()
	shown := &pawlv1.Batch{
		BatchId: b.ID.String(), Status: batchStatus(b), Pipeline: b.Pipeline + ":" + b.PipelineVersion, Label: b.Label,
		Class: classProto(machine.Class(b.Class)), Counts: countsProto(b, counts), CostSoFarUsd: cost.String(),
		Failures: failuresProto(b), CreatedAt: timestamppb.New(b.CreatedAt), SealedAt: timestampOrNil(b.SealedAt),
		DeadlineAt: timestampOrNil(b.DeadlineAt), PausedAt: timestampOrNil(b.PausedAt),
		CancelRequestedAt: timestampOrNil(b.CancelRequestedAt), FinishedAt: timestampOrNil(b.FinishedAt),
		Etag: strconv.FormatInt(b.Version, 10),
	}
	if b.BudgetUsd != nil {
		shown.BudgetUsd = proto.String(b.BudgetUsd.String())
	}
	total, ended := shown.GetCounts().GetTotal(), shown.GetCounts().GetDone()+shown.GetCounts().GetFailed()+shown.GetCounts().GetCancelled()
	if total > 0 {
		shown.DoneShare = float64(ended) / float64(total)
	}
	showPace(shown, b, int(total-ended))
	return shown
}

// showPace says how fast items end, and when the last one will.
func showPace(shown *pawlv1.Batch, b *store.Batch, left int) {
	if b.PerMinute == nil || b.PaceAt == nil || b.FinishedAt != nil {
		return
	}
	shown.ItemsPerMinute = b.PerMinute
	if *b.PerMinute > 0 && left > 0 && b.PausedAt == nil && b.SealedAt != nil {
		rest := time.Duration(float64(left) / *b.PerMinute * float64(time.Minute))
		shown.EstimatedEndAt = timestamppb.New(b.PaceAt.Add(rest))
	}
}

func batchStatus(b *store.Batch) pawlv1.BatchStatus {
	switch {
	case b.FinishedAt != nil && b.CancelRequestedAt != nil:
		return pawlv1.BatchStatus_BATCH_STATUS_CANCELLED
	case b.FinishedAt != nil:
		return pawlv1.BatchStatus_BATCH_STATUS_COMPLETED
	case b.CancelRequestedAt != nil:
		return pawlv1.BatchStatus_BATCH_STATUS_CANCELLING
	case b.PausedAt != nil:
		return pawlv1.BatchStatus_BATCH_STATUS_PAUSED
	case b.SealedAt != nil:
		return pawlv1.BatchStatus_BATCH_STATUS_RUNNING
	default:
		return pawlv1.BatchStatus_BATCH_STATUS_FILLING
	}
}

func countsProto(b *store.Batch, counts map[string]int64) *pawlv1.BatchCounts {
	of := func(s machine.RunStatus) int32 { return int32(counts[string(s)]) }
	shown := &pawlv1.BatchCounts{
		Queued: of(machine.RunQueued), Running: of(machine.RunRunning), NeedsReview: of(machine.RunNeedsReview),
		Compensating: of(machine.RunCompensating), Done: of(machine.RunDone), Failed: of(machine.RunFailed),
		Cancelled: of(machine.RunCancelled), Rejected: int32(b.Rejected),
	}
	for _, n := range counts {
		shown.Total += int32(n)
	}
	return shown
}

// failuresProto lists the reasons for which items failed, the most frequent first.
func failuresProto(b *store.Batch) []*pawlv1.BatchFailure {
	var failures []*pawlv1.BatchFailure
	for _, c := range b.Counts {
		if c.Status == string(machine.RunFailed) && c.N > 0 {
			failures = append(failures, &pawlv1.BatchFailure{Reason: c.Reason, Count: int32(c.N), ExampleRunId: c.Example.String()})
		}
	}
	slices.SortFunc(failures, func(x, y *pawlv1.BatchFailure) int {
		return cmp.Or(cmp.Compare(y.GetCount(), x.GetCount()), cmp.Compare(x.GetReason(), y.GetReason()))
	})
	return failures[:min(len(failures), mostFailures)]
}

// labelsOf are the labels of a batch's items.
func labelsOf(b *store.Batch) map[string]string {
	labels := map[string]string{}
	_ = json.Unmarshal(b.Labels, &labels) // they were written by CreateBatch
	return labels
}
