package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/money"
)

// Spend shows what was spent.
type Spend struct {
	Connection
	From   string   `help:"The first day (UTC). Default: the first of this month." placeholder:"2026-11-01"`
	To     string   `help:"The last day (UTC). Default: today." placeholder:"2026-11-30"`
	By     []string `help:"What the sums are told apart by: tenant, pipeline, model, day, provider, class." default:"model" placeholder:"model"`
	Tenant string   `help:"Only this tenant's; for administrators of the tenant system, who see all otherwise."`
}

// Run prints the sums, the dearest first.
func (c *Spend) Run(ctx context.Context, s Streams) error {
	request := &pawlv1.GetSpendRequest{From: c.From, To: c.To, Tenant: c.Tenant}
	for _, name := range c.By {
		number, ok := pawlv1.SpendDimension_value["SPEND_DIMENSION_"+strings.ToUpper(name)]
		if !ok || number == 0 {
			return WithExitCode(fmt.Errorf("--by=%s: use tenant, pipeline, model, day, provider or class", name), ExitUsage)
		}
		request.GroupBy = append(request.GroupBy, pawlv1.SpendDimension(number))
	}
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	spent, err := client.GetSpend(ctx, request)
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, spent)
	}
	return c.print(s, request.GetGroupBy(), spent)
}

func (c *Spend) print(s Streams, by []pawlv1.SpendDimension, spent *pawlv1.GetSpendResponse) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	var header []string
	for _, d := range by {
		header = append(header, strings.ToUpper(apijson.WordOf(d)))
	}
	header = append(header, "REQUESTS", "ANSWERED", "INPUT", "CACHED", "OUTPUT", "USD")
	fmt.Fprintln(w, strings.Join(header, "\t"))
	unpriced := int64(0)
	for _, r := range spent.GetRows() {
		cells := append(names(by, r), fmt.Sprint(r.GetRequests()), fmt.Sprint(r.GetAnswered()), fmt.Sprint(r.GetInputTokens()),
			fmt.Sprint(r.GetCachedInputTokens()), fmt.Sprint(r.GetOutputTokens()), r.GetCostUsd())
		fmt.Fprintln(w, strings.Join(cells, "\t"))
		unpriced += r.GetUnpriced()
	}
	fmt.Fprintln(w, "total"+strings.Repeat("\t", len(header)-1)+spent.GetTotalUsd())
	if unpriced > 0 {
		fmt.Fprintf(s.Err, "the price of %d requests was not known: they have cost more than is shown (see pawl recost)\n", unpriced)
	}
	return w.Flush()
}

// names are a row's values of the dimensions.
func names(by []pawlv1.SpendDimension, r *pawlv1.SpendRow) []string {
	var cells []string
	for _, d := range by {
		name := map[pawlv1.SpendDimension]string{
			pawlv1.SpendDimension_SPEND_DIMENSION_TENANT: r.GetTenant(), pawlv1.SpendDimension_SPEND_DIMENSION_PIPELINE: r.GetPipeline(),
			pawlv1.SpendDimension_SPEND_DIMENSION_MODEL: r.GetModel(), pawlv1.SpendDimension_SPEND_DIMENSION_DAY: r.GetDay(),
			pawlv1.SpendDimension_SPEND_DIMENSION_PROVIDER: r.GetProvider(), pawlv1.SpendDimension_SPEND_DIMENSION_CLASS: r.GetClass(),
		}[d]
		if name == "" {
			name = "-"
		}
		cells = append(cells, name)
	}
	return slices.Clip(cells)
}

// Budget groups the commands about a tenant's budget.
type Budget struct {
	Get getBudget `cmd:"" default:"withargs" help:"Show this month's budget (UTC), and what is used of it."`
	Set setBudget `cmd:"" help:"Set what may be spent in a calendar month (UTC), or take the limit away."`
}

type getBudget struct {
	Connection
	Tenant string `help:"Another tenant's; for administrators of the tenant system."`
}

// Run shows the budget.
func (c *getBudget) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.GetBudget(ctx, &pawlv1.GetBudgetRequest{Tenant: c.Tenant})
	if err != nil {
		return coded(err)
	}
	return c.showBudget(s, found.GetBudget())
}

type setBudget struct {
	Connection
	Amount string `arg:"" help:"US dollars, such as 250.00; 'none' takes the limit away."`
	Tenant string `help:"Another tenant's."`
}

// Run sets the budget.
func (c *setBudget) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pawlv1.SetBudgetRequest{Tenant: c.Tenant}
	if c.Amount != "none" {
		if _, err := money.Parse(c.Amount); err != nil {
			return fmt.Errorf("the amount %q is none: write US dollars, such as 250.00, or 'none' to take the limit away", c.Amount)
		}
		request.MonthUsd = proto.String(c.Amount)
	}
	set, err := client.SetBudget(ctx, request)
	if err != nil {
		return coded(err)
	}
	return c.showBudget(s, set.GetBudget())
}

func (c Connection) showBudget(s Streams, b *pawlv1.Budget) error {
	if c.JSON {
		return printJSON(s.Out, b)
	}
	limit := "no budget"
	if b.MonthUsd != nil {
		limit = "$" + b.GetMonthUsd()
	}
	fmt.Fprintf(s.Out, "%s: %s a month; spent $%s, reserved $%s, until %s\n", b.GetTenant(), limit, b.GetSpentUsd(), b.GetReservedUsd(),
		b.GetResetsAt().AsTime().Format("2006-01-02"))
	return nil
}
