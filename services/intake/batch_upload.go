package intake

import (
	"errors"
	"fmt"
	"io"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// UploadBatch accepts a batch as a stream. Where all items must be valid they are set aside in a file first; else they are
// made as they come, and nothing is held but what is under way.
func (s *Service) UploadBatch(stream pawlv1.BatchService_UploadBatchServer) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF), err == nil && first.GetBatch() == nil:
		return badUpload("batch", "must be the first message of the stream")
	case err != nil:
		return err
	}
	f, err := s.newFilling(ctx, pawlv1.BatchService_UploadBatch_FullMethodName, first.GetBatch(), nil)
	if err != nil {
		return err
	}
	items := s.received(stream)
	if isAllOrNothing(f.header) {
		spool, err := s.spools.keep(items)
		if err != nil {
			return err
		}
		defer spool.close()
		items = spool.parts()
		if err := f.checkAll(ctx, items); err != nil {
			return err
		}
	}
	made := &outcome{keep: maxTold}
	if err := f.fill(ctx, items, made); err != nil {
		return err
	}
	return stream.SendAndClose(&pawlv1.UploadBatchResponse{
		BatchId: f.batch.GetBatchId(), Status: f.batch.GetStatus(), Replayed: f.replayed,
		Created: made.created, Duplicates: made.duplicates, Rejected: made.rejected, Problems: made.sorted(),
	})
}

// received are the parts of a stream behind its header, each with its place.
func (s *Service) received(stream pawlv1.BatchService_UploadBatchServer) parts {
	return func(yield func(*pawlv1.UploadBatchRequest, error) bool) {
		next := int32(0)
		for count := 0; ; count++ {
			part, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = s.place(part, next, count)
			}
			if !yield(part, err) || err != nil {
				return
			}
			next = part.GetIndex() + 1
		}
	}
}

// place gives a part its place if it has none, and refuses what no upload may have.
func (s *Service) place(part *pawlv1.UploadBatchRequest, next int32, count int) error {
	if part.Index == nil {
		part.Index = &next
	}
	select {
	case <-s.stopping:
		return fault.Unavailable(nil, "this replica of intake is stopping: repeat the upload under its key, and it goes on")
	default:
	}
	switch {
	case part.GetBatch() != nil:
		return badUpload("batch", "is given twice: it must be the first message of the stream and no other")
	case part.GetIndex() < next:
		return badUpload("index", fmt.Sprintf("must be %d or more here: items come in the order of their places", next))
	case count == maxUpload:
		return badUpload(itemsField, fmt.Sprintf("must contain at most %d items: make several batches of them", maxUpload))
	}
	return nil
}

func badUpload(field, message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: field, Message: message})
}
