package llmgateway

import (
	"context"

	"pawl.internal/services/llmgateway/store"
)

// mostEarlier is how many earlier questions are looked at for an answer that was corrected.
const mostEarlier = 32

// corrected finds the answer to the same question under an earlier number, if it was taken for none when it came, and was read
// again and found good since: the step was retried for want of it, and need not pay for it twice.
func (s *Service) corrected(ctx context.Context, a *ask) (store.Key, store.Found, bool, error) {
	number := a.req.GetAsk()
	if number == 0 {
		return store.Key{}, store.Found{}, false, nil
	}
	var digests [][32]byte
	for n := number - 1; n >= max(0, number-mostEarlier); n-- {
		digest, err := a.digest(n)
		if err != nil {
			return store.Key{}, store.Found{}, false, err
		}
		digests = append(digests, digest)
	}
	key, ok, err := s.store.TakeCorrected(ctx, a.key.RunID, digests, number)
	if err != nil || !ok {
		return store.Key{}, store.Found{}, false, err
	}
	found, err := s.store.Find(ctx, key)
	return key, found, err == nil && found.State == store.CallAnswered, err
}
