package intake

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
)

// mostSpendDays bounds the days over which spend is summed up.
const mostSpendDays = 3700

// GetSpend sums up what model calls have cost. Operators see every tenant's unless they name one.
func (s *Service) GetSpend(ctx context.Context, req *pawlv1.GetSpendRequest) (*pawlv1.GetSpendResponse, error) {
	tenant, err := tenantAsked(ctx, req.GetTenant(), "")
	if err != nil {
		return nil, err
	}
	from, to, err := s.days(req)
	if err != nil {
		return nil, err
	}
	spent, err := s.gateway.GetSpend(ctx, &systemv1.GetSpendRequest{
		Tenant: tenant, From: timestamppb.New(from), To: timestamppb.New(to.AddDate(0, 0, 1)), GroupBy: req.GetGroupBy(),
	})
	if err != nil {
		return nil, err
	}
	resp := &pawlv1.GetSpendResponse{Rows: spent.GetRows()}
	var total money.Pico
	for _, row := range spent.GetRows() {
		cost, err := money.Parse(row.GetCostUsd())
		if err != nil {
			return nil, fault.Internal(err)
		}
		if total, err = total.Add(cost); err != nil {
			return nil, fault.Internal(err)
		}
	}
	resp.TotalUsd = total.String()
	return resp, nil
}

// days are the first and the last day that are asked about: of the current month if none are named.
func (s *Service) days(req *pawlv1.GetSpendRequest) (from, to time.Time, err error) {
	today := s.clock.Now().UTC().Truncate(24 * time.Hour)
	from, to = today.AddDate(0, 0, 1-today.Day()), today
	var broken []fault.Violation
	for _, day := range []struct {
		field, text string
		to          *time.Time
	}{{"from", req.GetFrom(), &from}, {"to", req.GetTo(), &to}} {
		if day.text == "" {
			continue
		}
		if *day.to, err = time.Parse(time.DateOnly, day.text); err != nil {
			broken = append(broken, fault.Violation{Field: day.field, Message: "must be a day such as 2026-11-30"})
		}
	}
	if len(broken) == 0 && (to.Before(from) || to.Sub(from) > mostSpendDays*24*time.Hour) {
		broken = append(broken, fault.Violation{Field: "to", Message: "must not be before from, or more than ten years after it"})
	}
	if len(broken) > 0 {
		return from, to, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, broken...)
	}
	return from, to, nil
}

// tenantAsked is the tenant that a call is about: the caller's own, or for operators the one that is named, or else the given
// one.
func tenantAsked(ctx context.Context, named, otherwise string) (string, error) {
	who := callerOf(ctx)
	switch {
	case who.operates() && named == "":
		return otherwise, nil
	case named == "":
		return who.tenant, nil
	}
	return named, who.maySee(named)
}

// GetBudget returns a tenant's budget of the current month, and what is used of it.
func (s *Service) GetBudget(ctx context.Context, req *pawlv1.GetBudgetRequest) (*pawlv1.GetBudgetResponse, error) {
	tenant, err := tenantAsked(ctx, req.GetTenant(), callerOf(ctx).tenant)
	if err != nil {
		return nil, err
	}
	found, err := s.gateway.GetBudget(ctx, &systemv1.GetBudgetRequest{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetBudgetResponse{Budget: found.GetBudget()}, nil
}

// SetBudget sets what a tenant may spend in a month, or takes the limit away.
func (s *Service) SetBudget(ctx context.Context, req *pawlv1.SetBudgetRequest) (*pawlv1.SetBudgetResponse, error) {
	tenant, err := tenantAsked(ctx, req.GetTenant(), callerOf(ctx).tenant)
	if err != nil {
		return nil, err
	}
	set := &systemv1.SetBudgetRequest{Tenant: tenant}
	if req.MonthUsd != nil {
		amount, broken := budgetOf(req.GetMonthUsd())
		if len(broken) > 0 || amount == nil {
			return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				fault.Violation{Field: "month_usd", Message: "must be an amount such as 250.00, and at most 9223372"})
		}
		set.MonthPicoUsd = amount
	}
	if _, err := s.gateway.SetBudget(ctx, set); err != nil {
		return nil, err
	}
	found, err := s.gateway.GetBudget(ctx, &systemv1.GetBudgetRequest{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	return &pawlv1.SetBudgetResponse{Budget: found.GetBudget()}, nil
}

// GetLimits tells how the providers' limits stand.
func (s *Service) GetLimits(ctx context.Context, _ *pawlv1.GetLimitsRequest) (*pawlv1.GetLimitsResponse, error) {
	found, err := s.gateway.GetLimits(ctx, &systemv1.GetLimitsRequest{})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetLimitsResponse{Groups: found.GetGroups()}, nil
}
