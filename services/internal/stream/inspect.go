package stream

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Entry is an entry as it lies in the stream.
type Entry struct {
	Message
	// Delivered says that some consumer has got it and not acknowledged it.
	Delivered bool
}

// Look returns up to most entries, the oldest first, and the id of the last one that was handed out. It takes nothing away.
func (s *Stream) Look(ctx context.Context, most int) (entries []Entry, last string, err error) {
	last, _, err = s.lastDelivered(ctx)
	if isMissing(err) {
		return nil, fromStart, nil
	}
	if err != nil {
		return nil, "", s.failed("look at", err)
	}
	found, err := s.client.XRangeN(ctx, s.key, "-", "+", int64(most)).Result()
	if err != nil {
		return nil, "", s.failed("look at", err)
	}
	end := lengthUpTo(found, last)
	entries = make([]Entry, len(found))
	for i, message := range messagesOf(found) {
		entries[i] = Entry{Message: message, Delivered: i < end}
	}
	return entries, last, nil
}

// lengthUpTo counts the entries before and with the id. Ids are in order, but not as texts.
func lengthUpTo(found []redis.XMessage, last string) int {
	for i := range found {
		if after(found[i].ID, last) {
			return i
		}
	}
	return len(found)
}

// after reports whether an id comes after another.
func after(id, other string) bool {
	ms, seq := split(id)
	otherMS, otherSeq := split(other)
	return ms > otherMS || ms == otherMS && seq > otherSeq
}

// split reads the two numbers of an id; what is no number counts as 0.
func split(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}
