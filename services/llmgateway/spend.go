package llmgateway

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/store"
)

// GetSpend sums up what was spent.
func (s *Service) GetSpend(ctx context.Context, req *systemv1.GetSpendRequest) (*systemv1.GetSpendResponse, error) {
	q := store.SpendQuery{
		From: req.GetFrom().AsTime(), To: req.GetTo().AsTime().Add(-time.Nanosecond), Tenant: req.GetTenant(),
	}
	for _, d := range req.GetGroupBy() {
		q.By = append(q.By, dimensionOf(d))
	}
	rows, err := s.store.Spend(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &systemv1.GetSpendResponse{}
	for _, r := range rows {
		resp.Rows = append(resp.Rows, &pawlv1.SpendRow{
			Tenant: r.Tenant, Pipeline: r.Origin, Model: r.Model, Day: r.Day, Provider: r.Provider, Class: r.Class,
			Requests: r.Calls, Answered: r.Answered, InputTokens: r.Usage.Input, CachedInputTokens: r.Usage.CachedInput,
			CacheWriteTokens: r.Usage.CacheWrite + r.Usage.CacheWrite1h, OutputTokens: r.Usage.Output, ReasoningTokens: r.Usage.Reasoning,
			CostUsd: r.Cost, Unpriced: r.Unpriced,
		})
	}
	return resp, nil
}

func dimensionOf(d pawlv1.SpendDimension) store.Dimension {
	return map[pawlv1.SpendDimension]store.Dimension{
		pawlv1.SpendDimension_SPEND_DIMENSION_TENANT:   store.ByTenant,
		pawlv1.SpendDimension_SPEND_DIMENSION_PIPELINE: store.ByOrigin,
		pawlv1.SpendDimension_SPEND_DIMENSION_MODEL:    store.ByModel,
		pawlv1.SpendDimension_SPEND_DIMENSION_DAY:      store.ByDay,
		pawlv1.SpendDimension_SPEND_DIMENSION_PROVIDER: store.ByProvider,
		pawlv1.SpendDimension_SPEND_DIMENSION_CLASS:    store.ByClass,
	}[d]
}

// SetBudget sets what a tenant may spend in a calendar month. The other replicas know it within a second.
func (s *Service) SetBudget(ctx context.Context, req *systemv1.SetBudgetRequest) (*systemv1.SetBudgetResponse, error) {
	var amount *money.Pico
	if req.MonthPicoUsd != nil {
		pico := money.Pico(req.GetMonthPicoUsd())
		amount = &pico
	}
	if err := s.store.SetBudget(ctx, store.TenantBudget(req.GetTenant()), amount); err != nil {
		return nil, err
	}
	if err := s.budgets.Refresh(ctx); err != nil {
		return nil, err
	}
	return &systemv1.SetBudgetResponse{}, nil
}

// GetBudget returns a tenant's budget of the month, and what is used of it over all replicas.
func (s *Service) GetBudget(ctx context.Context, req *systemv1.GetBudgetRequest) (*systemv1.GetBudgetResponse, error) {
	state, _, err := s.store.ReadBudget(ctx, store.TenantBudget(req.GetTenant()))
	if err != nil {
		return nil, err
	}
	b := &pawlv1.Budget{
		Tenant: req.GetTenant(), SpentUsd: state.Spent.String(), ReservedUsd: state.Reserved.String(),
		ResetsAt: timestamppb.New(state.Period.AddDate(0, 1, 0)),
	}
	if state.Amount != nil {
		text := state.Amount.String()
		b.MonthUsd = &text
	}
	return &systemv1.GetBudgetResponse{Budget: b}, nil
}
