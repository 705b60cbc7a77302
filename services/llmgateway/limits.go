package llmgateway

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/llmgateway/permit"
)

// GetLimits tells how the limit groups stand, as this replica knows it.
func (s *Service) GetLimits(context.Context, *systemv1.GetLimitsRequest) (*systemv1.GetLimitsResponse, error) {
	resp := &systemv1.GetLimitsResponse{}
	for name, state := range s.permits.States() {
		resp.Groups = append(resp.Groups, limitGroup(name, state))
	}
	slices.SortFunc(resp.GetGroups(), func(a, b *pawlv1.LimitGroup) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return resp, nil
}

func limitGroup(name string, s permit.State) *pawlv1.LimitGroup {
	g := &pawlv1.LimitGroup{
		Name: name, Concurrency: int32(s.Limit.Concurrency), Ceiling: int32(s.Ceiling), InFlight: int32(s.InFlight),
		WaitingInteractive: int32(s.Waiting[permit.Interactive]), WaitingBatch: int32(s.Waiting[permit.Batch]), Degraded: s.Degraded,
	}
	if !s.PausedUntil.IsZero() {
		g.PausedUntil = timestamppb.New(s.PausedUntil)
	}
	for _, rate := range []struct {
		of    string
		by    permit.Dimension
		limit int64
	}{
		{"requests", permit.Requests, s.Limit.Requests},
		{"tokens", permit.Tokens, s.Limit.Tokens},
		{"input_tokens", permit.InputTokens, s.Limit.InputTokens},
		{"output_tokens", permit.OutputTokens, s.Limit.OutputTokens},
	} {
		if rate.limit > 0 {
			g.Rates = append(g.Rates, &pawlv1.LimitGroup_Rate{
				Of: rate.of, PerMinute: rate.limit, Ceiling: int64(s.PerMinute[rate.by]), Available: int64(s.Levels[rate.by]),
			})
		}
	}
	return g
}
