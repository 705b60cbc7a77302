package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// aheadMost is how far the newest id may be ahead of Redis's own clock: ids are times, and by them waiting in line is told
// from loss.
const aheadMost = time.Minute

// Unfit says why the stream will never hand out what is added to it, or why its ids no longer tell how long an entry has
// waited; "" when it serves, or is not there. It is what others may do to a key, and clocks to ids. The remedy is Delete.
func (s *Stream) Unfit(ctx context.Context) (why string, err error) {
	var groups *redis.XInfoGroupsCmd
	var info *redis.XInfoStreamCmd
	var now *redis.TimeCmd
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		// In this order: what is added and handed out between two answers must not look as if it had never been added.
		groups, info, now = p.XInfoGroups(ctx, s.key), p.XInfoStream(ctx, s.key), p.Time(ctx)
		return nil
	})
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return "its key holds something that is no stream", nil
	case isMissing(err):
		return "", nil
	case err != nil:
		return "", s.failed("look at", err)
	}
	newest := info.Val().LastGeneratedID
	if ms, _ := split(newest); ms > uint64(now.Val().Add(aheadMost).UnixMilli()) {
		return fmt.Sprintf("its newest id %s is ahead of Redis's clock", newest), nil
	}
	for _, group := range groups.Val() {
		if group.Name == s.group && after(group.LastDeliveredID, newest) {
			return fmt.Sprintf("its group has got everything up to %s, which is more than there ever was (%s)", group.LastDeliveredID, newest), nil
		}
	}
	return "", nil
}

// Delete takes the stream away with its group and all entries. Whoever needs it makes it anew, and what is still wanted is
// added again from PostgreSQL.
func (s *Stream) Delete(ctx context.Context) error {
	return s.failed("delete", s.client.Del(ctx, s.key).Err())
}
