package client

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/intake"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
)

// Tenants groups the commands about tenants.
type Tenants struct {
	Create    createTenant    `cmd:"" help:"Make a tenant."`
	List      listTenants     `cmd:"" help:"List tenants: for operators all, for other administrators their own."`
	Get       getTenant       `cmd:"" help:"Show a tenant with its limits."`
	Update    updateTenant    `cmd:"" help:"Change a tenant's name, weight or limits, or refuse its keys."`
	Bootstrap bootstrapTenant `cmd:"" help:"Make the first administrator's key of the operators' tenant, straight in the database."`
}

// tenantLimits are the flags of what is limited; 0 says nothing.
type tenantLimits struct {
	SubmitRate         int32 `help:"Submits in a minute, over a long time." placeholder:"N"`
	SubmitBurst        int32 `help:"Submits at once, after a pause." placeholder:"N"`
	MaxQueuedRuns      int64 `help:"Runs that have not ended." placeholder:"N"`
	MaxConcurrentSteps int32 `help:"Steps that are dispatched and have not ended." placeholder:"N"`
}

// message is nil when no limit is given.
func (l tenantLimits) message() *pawlv1.TenantLimits {
	if l == (tenantLimits{}) {
		return nil
	}
	return &pawlv1.TenantLimits{
		SubmitRate: given(l.SubmitRate), SubmitBurst: given(l.SubmitBurst), MaxQueuedRuns: given(l.MaxQueuedRuns),
		MaxConcurrentSteps: given(l.MaxConcurrentSteps),
	}
}

// given is nil for a flag that was not.
func given[T int32 | int64](value T) *T {
	if value == 0 {
		return nil
	}
	return &value
}

type createTenant struct {
	Connection
	ID     string `arg:"" help:"Its id, for good: lower-case letters, digits, _ and -."`
	Name   string `help:"What people call it. Default: its id."`
	Weight int32  `help:"Its share beside others." default:"1"`
	tenantLimits
	Reason string `help:"Why, for the record."`
}

// Run makes the tenant.
func (c *createTenant) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	made, err := client.CreateTenant(ctx, &pawlv1.CreateTenantRequest{
		TenantId: c.ID, Name: c.Name, Weight: proto.Int32(c.Weight), Limits: c.message(), Reason: c.Reason,
	})
	if err != nil {
		return coded(err)
	}
	return c.showTenant(s, made.GetTenant())
}

type listTenants struct{ Connection }

// Run prints a table of all tenants that the caller may see.
func (c *listTenants) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	all := &pawlv1.ListTenantsResponse{}
	for request := (&pawlv1.ListTenantsRequest{PageSize: 1000}); ; {
		page, err := client.ListTenants(ctx, request)
		if err != nil {
			return coded(err)
		}
		all.Tenants = append(all.Tenants, page.GetTenants()...)
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			break
		}
	}
	if c.JSON {
		return printJSON(s.Out, all)
	}
	return tabulateTenants(s.Out, all.GetTenants())
}

func tabulateTenants(out io.Writer, tenants []*pawlv1.Tenant) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tNAME\tWEIGHT\tSUBMITS A MINUTE\tAT ONCE\tUNFINISHED RUNS\tSTEPS AT ONCE\t")
	for _, t := range tenants {
		holds, steps, state := t.GetEffectiveLimits(), "no limit", ""
		if holds.MaxConcurrentSteps != nil {
			steps = strconv.Itoa(int(holds.GetMaxConcurrentSteps()))
		}
		if t.GetDisabled() {
			state = "disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", t.GetTenantId(), t.GetName(), t.GetWeight(), holds.GetSubmitRate(),
			holds.GetSubmitBurst(), holds.GetMaxQueuedRuns(), steps, state)
	}
	return w.Flush()
}

func (c Connection) showTenant(s Streams, t *pawlv1.Tenant) error {
	if c.JSON {
		return printJSON(s.Out, t)
	}
	return tabulateTenants(s.Out, []*pawlv1.Tenant{t})
}

type getTenant struct {
	Connection
	ID string `arg:"" help:"Its id."`
}

// Run shows the tenant.
func (c *getTenant) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.GetTenant(ctx, &pawlv1.GetTenantRequest{TenantId: c.ID})
	if err != nil {
		return coded(err)
	}
	return c.showTenant(s, found.GetTenant())
}

type updateTenant struct {
	Connection
	ID     string `arg:"" help:"Its id."`
	Name   string `help:"What people call it."`
	Weight int32  `help:"Its share beside others." placeholder:"N"`
	tenantLimits
	Reset   []string `help:"Limits that are those of the configuration again, such as submit_rate." placeholder:"LIMIT"`
	Disable bool     `help:"Refuse its keys." xor:"disabled"`
	Enable  bool     `help:"Take its keys again." xor:"disabled"`
	Etag    string   `help:"Change it only if it is still as it was with this etag."`
	Reason  string   `help:"Why, for the record." required:""`
}

// Run changes what is given.
func (c *updateTenant) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pawlv1.UpdateTenantRequest{
		TenantId: c.ID, Weight: given(c.Weight), Limits: c.message(), ResetLimits: c.Reset, Etag: c.Etag, Reason: c.Reason,
	}
	if c.Name != "" {
		request.Name = &c.Name
	}
	if c.Disable || c.Enable {
		request.Disabled = &c.Disable
	}
	changed, err := client.UpdateTenant(ctx, request)
	if err != nil {
		return coded(err)
	}
	return c.showTenant(s, changed.GetTenant())
}

type bootstrapTenant struct {
	DatabaseURL config.Secret `help:"PostgreSQL connection URL. Default: that of the system that 'pawl dev' runs on the data folder." placeholder:"postgres://…"`
	DataDir     string        `help:"Data folder of 'pawl dev'." default:".pawl" type:"path"`
	Again       bool          `help:"Make another key although there is a valid one."`
}

// Run makes the key and prints it: the only time that it is shown.
func (c *bootstrapTenant) Run(ctx context.Context, s Streams) error {
	url := c.DatabaseURL
	if url.Reveal() == "" {
		record, err := dev.ReadRecord(c.DataDir)
		if err != nil {
			return fmt.Errorf("no database is named, and no system runs on %s: give --database-url (PAWL_DATABASE_URL) (%w)", c.DataDir, err)
		}
		url = config.NewSecret(record.DatabaseURL)
	}
	pool, err := pg.Open(ctx, pg.Config{URL: url, MaxConns: 2, StatementTimeout: time.Minute, ConnectTimeout: 10 * time.Second}, "bootstrap")
	if err != nil {
		return err
	}
	defer pool.Close()
	key, err := intake.Bootstrap(ctx, pool, c.Again)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Out, key)
	fmt.Fprintln(s.Err, "this is the only time that the key is shown; it manages all tenants: keep it as such")
	return nil
}
