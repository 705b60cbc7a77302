package client

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
)

// Keys groups the commands about API keys.
type Keys struct {
	Create createKey `cmd:"" help:"Make a key, and print it once."`
	List   listKeys  `cmd:"" help:"List a tenant's keys, without their secrets."`
	Revoke revokeKey `cmd:"" help:"End a key; every replica refuses it within a minute."`
	Rotate rotateKey `cmd:"" help:"Make a key that replaces another one, which stays valid for a while."`
}

// roles are the words for roles, as the command line takes them.
func roles() map[string]pawlv1.KeyRole {
	words := map[string]pawlv1.KeyRole{}
	for number := range pawlv1.KeyRole_name {
		if role := pawlv1.KeyRole(number); role != pawlv1.KeyRole_KEY_ROLE_UNSPECIFIED {
			words[apijson.WordOf(role)] = role
		}
	}
	return words
}

type createKey struct {
	Connection
	Tenant string        `arg:"" help:"Whose it is to be."`
	Role   string        `help:"What its holder may do: viewer, client, operator or admin." enum:"viewer,client,operator,admin" default:"client"`
	TTL    time.Duration `help:"How long it is valid; for ever if not given." name:"ttl"`
	Note   string        `help:"What it is for."`
	Reason string        `help:"Why, for the record."`
}

// Run makes the key.
func (c *createKey) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pawlv1.CreateKeyRequest{TenantId: c.Tenant, Role: roles()[c.Role], Note: c.Note, Reason: c.Reason}
	if c.TTL > 0 {
		request.Expiry = &pawlv1.CreateKeyRequest_Ttl{Ttl: durationpb.New(c.TTL)}
	}
	made, err := client.CreateKey(ctx, request)
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, made)
	}
	c.reveal(s, made.GetApiKey())
	return nil
}

// reveal prints a new key.
func (c Connection) reveal(s Streams, key string) {
	fmt.Fprintln(s.Out, key)
	fmt.Fprintln(s.Err, "this is the only time that the key is shown")
}

type listKeys struct {
	Connection
	Tenant string `arg:"" help:"Whose keys."`
}

// Run prints a table of the tenant's keys.
func (c *listKeys) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	all := &pawlv1.ListKeysResponse{}
	for request := (&pawlv1.ListKeysRequest{TenantId: c.Tenant, PageSize: 1000}); ; {
		page, err := client.ListKeys(ctx, request)
		if err != nil {
			return coded(err)
		}
		all.Keys = append(all.Keys, page.GetKeys()...)
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			break
		}
	}
	if c.JSON {
		return printJSON(s.Out, all)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tROLE\tCREATED\tBY\tEXPIRES\tREVOKED\tLAST USED\tNOTE")
	for _, k := range all.GetKeys() {
		fmt.Fprintf(w, "pawl_%s_…\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.GetPrefix(), apijson.WordOf(k.GetRole()), moment(k.GetCreatedAt()),
			k.GetCreatedBy(), moment(k.GetExpiresAt()), moment(k.GetRevokedAt()), moment(k.GetLastUsedAt()), k.GetNote())
	}
	return w.Flush()
}

// moment is a time for people; "-" for never.
func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format(time.RFC3339)
}

type revokeKey struct {
	Connection
	Tenant string `arg:"" help:"Whose it is."`
	Prefix string `arg:"" help:"Its public part: pawl_<prefix>_…"`
	Reason string `help:"Why, for the record." required:""`
}

// Run ends the key.
func (c *revokeKey) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	revoked, err := client.RevokeKey(ctx, &pawlv1.RevokeKeyRequest{TenantId: c.Tenant, Prefix: c.Prefix, Reason: c.Reason})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, revoked.GetKey())
	}
	fmt.Fprintf(s.Out, "pawl_%s_… is revoked; every replica refuses it within a minute\n", revoked.GetKey().GetPrefix())
	return nil
}

type rotateKey struct {
	Connection
	Tenant  string         `arg:"" help:"Whose it is."`
	Prefix  string         `arg:"" help:"Its public part: pawl_<prefix>_…"`
	Overlap *time.Duration `help:"How long the old key stays valid; 24h if not given." placeholder:"24h"`
	TTL     time.Duration  `help:"How long the new key is valid; as long as the old one was made for if not given." name:"ttl"`
	Reason  string         `help:"Why, for the record."`
}

// Run replaces the key.
func (c *rotateKey) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pawlv1.RotateKeyRequest{TenantId: c.Tenant, Prefix: c.Prefix, Reason: c.Reason}
	if c.Overlap != nil {
		request.Overlap = durationpb.New(*c.Overlap)
	}
	if c.TTL > 0 {
		request.Expiry = &pawlv1.RotateKeyRequest_Ttl{Ttl: durationpb.New(c.TTL)}
	}
	rotated, err := client.RotateKey(ctx, request)
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, rotated)
	}
	c.reveal(s, rotated.GetApiKey())
	fmt.Fprintf(s.Err, "pawl_%s_… stays valid until %s\n", rotated.GetReplaced().GetPrefix(), moment(rotated.GetReplaced().GetExpiresAt()))
	return nil
}
