// Package stream is a Redis stream with one consumer group, as the system uses it: entries carry ids only, every entry is
// acknowledged and deleted when it is dealt with, and whatever Redis forgets is published again from PostgreSQL.
//
// So a missing stream or group is made anew wherever it is met, never an error, and losing an entry is never a loss of
// work. A Stream holds no state of its own and is safe for concurrent use. Errors are faults (redisconn.Fault).
package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/redisconn"
)

const (
	// fromStart is where groups begin: an entry added before its group is delivered too, and the group's lag is known.
	fromStart = "0"
	// undelivered asks for entries that no consumer has got yet.
	undelivered = ">"
	// answerTime is how long after the end of its block a read may take to be answered.
	answerTime = 2 * time.Second
)

// Fields is the content of an entry.
type Fields map[string]string

// Message is an entry as a consumer gets it.
type Message struct {
	// ID is the entry's id in the stream.
	ID string
	// Fields is nil when the entry was deleted after its delivery.
	Fields Fields
}

// Stream is one stream with its consumer group.
type Stream struct {
	client redis.UniversalClient
	key    string
	group  string
}

// New returns the stream of that key; nothing is asked of Redis yet.
func New(client redis.UniversalClient, key, group string) *Stream {
	return &Stream{client: client, key: key, group: group}
}

// Publish adds the entries in one round trip. After an error some of them may have been added.
func (s *Stream) Publish(ctx context.Context, entries []Fields) error {
	if len(entries) == 0 {
		return nil
	}
	if len(entries) > 1 && failpoint.Armed("stream.publish.between") {
		if err := s.Publish(ctx, entries[:1]); err != nil {
			return err
		}
		failpoint.Hit("stream.publish.between")
		entries = entries[1:]
	}
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, fields := range entries {
			p.XAdd(ctx, &redis.XAddArgs{Stream: s.key, Values: flat(fields)})
		}
		return nil
	})
	return s.failed("publish", err)
}

// flat lists names and values by name, since entries of equal layout take less room.
func flat(fields Fields) []string {
	list := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, name, fields[name])
	}
	return list
}

// Read hands up to count new entries to the consumer, waiting for the first up to block. It returns none when none came.
// The end of ctx cuts the waiting short only if it is a deadline; after a cancellation Read may still return entries, which
// then are the caller's like any other.
func (s *Stream) Read(ctx context.Context, consumer string, count int, block time.Duration) ([]Message, error) {
	messages, err := s.read(ctx, consumer, count, block)
	if !isMissing(err) {
		return messages, s.failed("read", err)
	}
	if err := s.EnsureGroup(ctx); err != nil {
		return nil, err
	}
	messages, err = s.read(ctx, consumer, count, block)
	return messages, s.failed("read", err)
}

func (s *Stream) read(ctx context.Context, consumer string, count int, block time.Duration) ([]Message, error) {
	ctx, cancel := context.WithTimeout(ctx, block+answerTime)
	defer cancel()
	streams, err := s.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: s.group, Consumer: consumer, Streams: []string{s.key, undelivered}, Count: int64(count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return messagesOf(streams[0].Messages), nil
}

// Ack takes entries that are dealt with out of the stream and out of the group, in one round trip. They are deleted first:
// one that is deleted and still pending is found by whoever looks after its consumer, while nobody looks for one that is
// acknowledged and not deleted.
func (s *Stream) Ack(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if failpoint.Armed("stream.ack.between") {
		if err := s.client.XDel(ctx, s.key, ids...).Err(); err != nil {
			return s.failed("acknowledge", err)
		}
		failpoint.Hit("stream.ack.between")
	}
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XDel(ctx, s.key, ids...)
		p.XAck(ctx, s.key, s.group, ids...)
		return nil
	})
	return s.failed("acknowledge", err)
}

// EnsureGroup makes the stream and its group if they are missing.
func (s *Stream) EnsureGroup(ctx context.Context) error {
	err := s.client.XGroupCreateMkStream(ctx, s.key, s.group, fromStart).Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return s.failed("create group", err)
}

// Len returns the number of entries that are not dealt with: waiting and delivered ones.
func (s *Stream) Len(ctx context.Context) (int64, error) {
	n, err := s.client.XLen(ctx, s.key).Result()
	return n, s.failed("length", err)
}

// AgeOfOldestUndelivered returns how long the first entry that no consumer has got has been waiting, by Redis's own clock;
// 0 when nothing waits.
func (s *Stream) AgeOfOldestUndelivered(ctx context.Context) (time.Duration, error) {
	last, now, err := s.lastDelivered(ctx)
	if isMissing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, s.failed("age", err)
	}
	next, err := s.client.XRangeN(ctx, s.key, "("+last, "+", 1).Result()
	if err != nil || len(next) == 0 {
		return 0, s.failed("age", err)
	}
	added, err := timeOf(next[0].ID)
	if err != nil {
		return 0, err
	}
	return max(0, now.Sub(added)), nil
}

// lastDelivered returns the id of the last entry that the group has handed out, and Redis's time.
func (s *Stream) lastDelivered(ctx context.Context) (string, time.Time, error) {
	var groups *redis.XInfoGroupsCmd
	var now *redis.TimeCmd
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		groups, now = p.XInfoGroups(ctx, s.key), p.Time(ctx)
		return nil
	})
	if err != nil {
		return "", time.Time{}, err
	}
	for _, group := range groups.Val() {
		if group.Name == s.group {
			return group.LastDeliveredID, now.Val(), nil
		}
	}
	return fromStart, now.Val(), nil // without a group nothing was delivered
}

// timeOf is when an entry was added: the first part of its id.
func timeOf(id string) (time.Time, error) {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("entry id %q does not begin with a time: %w", id, err)
	}
	return time.UnixMilli(n), nil
}

func messagesOf(entries []redis.XMessage) []Message {
	messages := make([]Message, len(entries))
	for i, entry := range entries {
		messages[i] = Message{ID: entry.ID, Fields: fieldsOf(entry.Values)}
	}
	return messages
}

func fieldsOf(values map[string]any) Fields {
	if values == nil {
		return nil
	}
	fields := make(Fields, len(values))
	for name, value := range values {
		fields[name] = fmt.Sprint(value)
	}
	return fields
}

// isMissing reports whether Redis says that there is no such stream or group, or that it went away under a waiting read.
func isMissing(err error) bool {
	says := func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }
	return slices.ContainsFunc([]string{
		"NOGROUP", "UNBLOCKED", "no such key", "The XGROUP subcommand requires the key to exist",
	}, says)
}

// failed translates an error and says where it happened; nil stays nil.
func (s *Stream) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s stream %s: %w", what, s.key, redisconn.Fault(err))
}
