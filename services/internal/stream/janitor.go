package stream

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Consumer is a member of the group.
type Consumer struct {
	Name string
	// Pending is how many entries it has got and not acknowledged.
	Pending int64
	// Idle is the time since it last asked for entries.
	Idle time.Duration
}

// Consumers lists the members of the group, those that are gone too.
func (s *Stream) Consumers(ctx context.Context) ([]Consumer, error) {
	infos, err := s.client.XInfoConsumers(ctx, s.key, s.group).Result()
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed("list consumers of", err)
	}
	consumers := make([]Consumer, len(infos))
	for i, info := range infos {
		consumers[i] = Consumer{Name: info.Name, Pending: info.Pending, Idle: info.Idle}
	}
	return consumers, nil
}

// Pending returns up to count entries that the consumer has got and not acknowledged, the oldest first, with their content.
// An entry that was deleted has no Fields; acknowledge it like the others.
func (s *Stream) Pending(ctx context.Context, consumer string, count int) ([]Message, error) {
	pending, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: s.key, Group: s.group, Start: "-", End: "+", Count: int64(count), Consumer: consumer,
	}).Result()
	if isMissing(err) || (err == nil && len(pending) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed("list pending of", err)
	}
	contents := make([]*redis.XMessageSliceCmd, len(pending))
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, entry := range pending {
			contents[i] = p.XRange(ctx, s.key, entry.ID, entry.ID)
		}
		return nil
	})
	if err != nil {
		return nil, s.failed("read pending of", err)
	}
	messages := make([]Message, len(pending))
	for i, entry := range pending {
		messages[i] = Message{ID: entry.ID}
		if found := contents[i].Val(); len(found) == 1 {
			messages[i].Fields = fieldsOf(found[0].Values)
		}
	}
	return messages, nil
}

// DeleteConsumer removes a member whose entries have all been acknowledged; entries that it still holds would be lost to
// the group.
func (s *Stream) DeleteConsumer(ctx context.Context, name string) error {
	err := s.client.XGroupDelConsumer(ctx, s.key, s.group, name).Err()
	if isMissing(err) {
		return nil
	}
	return s.failed("delete consumer of", err)
}
