package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"pawl.internal/services/llmgateway/store/db"
)

// write writes what has changed, with one statement a table, all in one exchange with the server.
func (g *group) write(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		g.writePurses, g.writeNewCalls, g.writeCalls, g.writeNewTries, g.writeItems, g.writeSettled, g.writeCorrected, g.writeRecosts, g.writeBookings,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if err := g.pipe.Flush(ctx); err != nil {
		return fmt.Errorf("write group: %w", err)
	}
	return nil
}

func (g *group) writePurses(ctx context.Context) error {
	rows := db.UpdatePursesParams{LeastID: g.least, MostID: g.most}
	owed := db.OweSpendParams{Now: g.now}
	for _, p := range g.purses {
		if !p.changed {
			continue
		}
		rows.RunIds = append(rows.RunIds, p.runID)
		rows.Budgets = append(rows.Budgets, orNone(p.budget))
		rows.Reserved = append(rows.Reserved, p.reserved)
		rows.Spent = append(rows.Spent, p.spent)
		rows.Versions = append(rows.Versions, p.version)
		rows.Epochs = append(rows.Epochs, p.epoch)
		rows.ClosedAt = append(rows.ClosedAt, p.closedAt)
		rows.BatchIds = append(rows.BatchIds, p.batch)
		if p.owed {
			owed.RunIds, owed.Versions = append(owed.RunIds, p.runID), append(owed.Versions, p.version)
		}
	}
	if len(rows.RunIds) == 0 {
		return nil
	}
	if err := g.query.UpdatePurses(ctx, rows); err != nil {
		return err
	}
	g.pipe.Expect(len(rows.RunIds), "update purses")
	if len(owed.RunIds) == 0 {
		return nil
	}
	// In the order of their ids: the confirmations of other replicas lock these rows too.
	sortOwed(&owed)
	return g.query.OweSpend(ctx, owed)
}

func sortOwed(owed *db.OweSpendParams) {
	versions := map[uuid.UUID]int64{}
	for i, id := range owed.RunIds {
		versions[id] = owed.Versions[i]
	}
	slices.SortFunc(owed.RunIds, compareIDs)
	for i, id := range owed.RunIds {
		owed.Versions[i] = versions[id]
	}
}

func (g *group) writeNewCalls(ctx context.Context) error {
	if len(g.newCalls) == 0 {
		return nil
	}
	rows := db.InsertCallsParams{Now: g.now}
	for _, c := range g.newCalls {
		q := c.question
		rows.RunIds = append(rows.RunIds, c.key.RunID)
		rows.CallKeys = append(rows.CallKeys, c.key.Digest[:])
		rows.Tenants = append(rows.Tenants, q.Tenant)
		rows.Steps = append(rows.Steps, q.Step)
		rows.Shards = append(rows.Shards, q.Shard)
		rows.Generations = append(rows.Generations, q.Generation)
		rows.Asks = append(rows.Asks, q.Ask)
		rows.Classes = append(rows.Classes, q.Class)
		rows.PromptVersions = append(rows.PromptVersions, q.PromptVersion)
		rows.Requests = append(rows.Requests, q.Request)
		rows.States = append(rows.States, string(c.state))
		rows.Tries = append(rows.Tries, int32(len(c.tries)))
		rows.WinningTries = append(rows.WinningTries, c.winning)
		rows.Costs = append(rows.Costs, c.cost)
		rows.FinishedAt = append(rows.FinishedAt, c.finishedAt)
		rows.Origins = append(rows.Origins, q.Origin)
	}
	return g.query.InsertCalls(ctx, rows)
}

func (g *group) writeCalls(ctx context.Context) error {
	rows := db.UpdateCallsParams{LeastID: g.least, MostID: g.most}
	for _, c := range g.calls {
		if c.isNew || !c.changed {
			continue
		}
		rows.RunIds = append(rows.RunIds, c.key.RunID)
		rows.CallKeys = append(rows.CallKeys, c.key.Digest[:])
		rows.States = append(rows.States, string(c.state))
		rows.Tries = append(rows.Tries, int32(len(c.tries)))
		rows.WinningTries = append(rows.WinningTries, c.winning)
		rows.Costs = append(rows.Costs, c.cost)
		rows.Replays = append(rows.Replays, c.replays)
		rows.FinishedAt = append(rows.FinishedAt, c.finishedAt)
	}
	if len(rows.RunIds) == 0 {
		return nil
	}
	if err := g.query.UpdateCalls(ctx, rows); err != nil {
		return err
	}
	g.pipe.Expect(len(rows.RunIds), "update calls")
	return nil
}

func (g *group) writeNewTries(ctx context.Context) error {
	if len(g.newTries) == 0 {
		return nil
	}
	rows := db.InsertTriesParams{Now: g.now}
	for _, t := range g.newTries {
		s := t.begun.Sending
		rows.RunIds = append(rows.RunIds, t.begun.Key.RunID)
		rows.CallKeys = append(rows.CallKeys, t.begun.Key.Digest[:])
		rows.TryNos = append(rows.TryNos, t.no)
		rows.Providers = append(rows.Providers, s.Provider)
		rows.Models = append(rows.Models, s.Model)
		rows.Formats = append(rows.Formats, s.Format)
		rows.KeyIds = append(rows.KeyIds, s.KeyID)
		rows.MaxOutputTokens = append(rows.MaxOutputTokens, s.MaxOutputTokens)
		rows.PriceIds = append(rows.PriceIds, s.PriceID)
		rows.Holders = append(rows.Holders, s.Holder)
		rows.PermitWaits = append(rows.PermitWaits, s.PermitWait)
		rows.Reserved = append(rows.Reserved, s.WorstCase)
	}
	return g.query.InsertTries(ctx, rows)
}

func (g *group) writeSettled(ctx context.Context) error {
	if len(g.settled) == 0 {
		return nil
	}
	rows := db.SettleTriesParams{Now: &g.now, LeastID: g.least, MostID: g.most}
	for _, s := range g.settled {
		rows.RunIds = append(rows.RunIds, s.key.RunID)
		rows.CallKeys = append(rows.CallKeys, s.key.Digest[:])
		rows.TryNos = append(rows.TryNos, s.try.no)
		rows.States = append(rows.States, string(s.outcome.State))
		rows.Costs = append(rows.Costs, s.outcome.Cost)
		rows.CostBases = append(rows.CostBases, string(s.outcome.Basis))
		rows.HttpStatuses = append(rows.HttpStatuses, int32(s.outcome.HTTPStatus))
		rows.Reasons = append(rows.Reasons, s.outcome.Reason)
		rows.Messages = append(rows.Messages, text(s.outcome.Message))
		rows.FinishReasons = append(rows.FinishReasons, text(s.outcome.FinishReason))
		rows.ProviderRequestIds = append(rows.ProviderRequestIds, text(s.outcome.RequestID))
		rows.InputTokens = append(rows.InputTokens, s.outcome.Usage.Input)
		rows.CachedInputTokens = append(rows.CachedInputTokens, s.outcome.Usage.CachedInput)
		rows.CacheWriteTokens = append(rows.CacheWriteTokens, s.outcome.Usage.CacheWrite)
		rows.CacheWrite1hTokens = append(rows.CacheWrite1hTokens, s.outcome.Usage.CacheWrite1h)
		rows.ToolCalls = append(rows.ToolCalls, toolCalls(s.outcome.Usage.Tools))
		rows.Tiers = append(rows.Tiers, string(s.outcome.Tier))
		rows.CostSplits = append(rows.CostSplits, split(s.outcome.Split))
		rows.PriceIds = append(rows.PriceIds, s.outcome.PriceID)
		rows.OutputTokens = append(rows.OutputTokens, s.outcome.Usage.Output)
		rows.ReasoningTokens = append(rows.ReasoningTokens, s.outcome.Usage.Reasoning)
		rows.Latencies = append(rows.Latencies, s.outcome.Latency)
		rows.FirstBytes = append(rows.FirstBytes, s.outcome.FirstByte)
		rows.Answers = append(rows.Answers, s.outcome.Body)
	}
	if err := g.query.SettleTries(ctx, rows); err != nil {
		return err
	}
	g.pipe.Expect(len(rows.RunIds), "settle tries")
	return nil
}
