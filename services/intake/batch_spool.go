package intake

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/rpc"
)

const (
	spoolBuffer = 64 << 10
	// spoolRetry is after what time it is worth asking again when other uploads fill the disk.
	spoolRetry = 10 * time.Second
)

// spools sets uploads aside on disk, all together in bounded room. It is safe for concurrent use.
type spools struct {
	dir   string
	limit int64
	used  atomic.Int64
}

// spool is an upload that was set aside. Its file has no name any more: it goes with the process, however that ends.
type spool struct {
	of   *spools
	file *os.File
	size int64
}

// keep sets parts aside.
func (s *spools) keep(all parts) (*spool, error) {
	file, err := os.CreateTemp(s.dir, "pawl-batch-*")
	if err != nil {
		return nil, fmt.Errorf("set an upload aside: %w", err)
	}
	kept := &spool{of: s, file: file}
	err = os.Remove(file.Name())
	if err == nil {
		err = kept.write(all)
	}
	if err != nil {
		kept.close()
		return nil, err
	}
	return kept, nil
}

func (k *spool) write(all parts) error {
	w := bufio.NewWriterSize(k.file, spoolBuffer)
	for part, err := range all {
		if err == nil {
			err = k.reserve(int64(proto.Size(part)))
		}
		if err != nil {
			return err
		}
		if _, err := protodelim.MarshalTo(w, part); err != nil {
			return fmt.Errorf("set an upload aside: %w", err)
		}
	}
	return w.Flush()
}

// reserve takes room for so many bytes.
func (k *spool) reserve(n int64) error {
	k.size += n
	used := k.of.used.Add(n)
	switch {
	case k.size > k.of.limit:
		return fault.New(faultv1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE,
			"an upload may have at most %d bytes: make several batches of it, or use the mode skip_invalid", k.of.limit)
	case used > k.of.limit:
		return fault.New(faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED,
			"other uploads take the room for this one: repeat it later, or use the mode skip_invalid").WithRetryAfter(spoolRetry)
	}
	return nil
}

// parts reads the upload from its beginning.
func (k *spool) parts() parts {
	return func(yield func(*pawlv1.UploadBatchRequest, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(k.file, 0, 1<<62), spoolBuffer)
		for {
			part := &pawlv1.UploadBatchRequest{}
			err := protodelim.UnmarshalOptions{MaxSize: rpc.MaxMessageBytes}.UnmarshalFrom(r, part)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// close gives the room back.
func (k *spool) close() {
	_ = k.file.Close() // it was only read since
	k.of.used.Add(-k.size)
}
