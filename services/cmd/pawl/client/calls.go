package client

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// Calls groups the commands about the call log that the API answers.
type Calls struct {
	List listCalls `cmd:"" help:"List the model calls of a run, with every request."`
	Show showCall  `cmd:"" help:"Show one model call: what was asked, masked, and what came back."`
}

type listCalls struct {
	Connection
	RunID string `arg:"" name:"run" help:"Id of the run."`
}

// Run prints a table of requests, one line each.
func (c *listCalls) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.ListRunCalls(ctx, &pawlv1.ListRunCallsRequest{RunId: c.RunID})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	return tabulateCalls(s.Out, list.GetCalls())
}

func tabulateCalls(w io.Writer, calls []*pawlv1.ModelCall) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CALL\tSTEP\tSTATE\tREPLAYS\tTRY\tMODEL\tSTATE\tREASON\tTOKENS IN\tOUT\tCOST USD\tWAIT\tLATENCY\tSENT")
	for _, call := range calls {
		for _, t := range call.GetTries() {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s/%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n",
				call.GetCallKey(), stepOf(call), call.GetState(), call.GetReplays(), t.GetTryNo(), t.GetProvider(), t.GetModel(), t.GetState(),
				t.GetReason(), t.GetInputTokens(), t.GetOutputTokens(), t.GetCostUsd(), brief(t.GetPermitWait()), brief(t.GetLatency()),
				t.GetSentAt().AsTime().Format(time.RFC3339))
		}
	}
	return table.Flush()
}

func stepOf(call *pawlv1.ModelCall) string {
	if call.Shard == nil {
		return call.GetStep()
	}
	return fmt.Sprintf("%s[%d]", call.GetStep(), call.GetShard())
}

// brief is a duration for people; empty for none.
func brief(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().Round(time.Millisecond).String()
}

type showCall struct {
	Connection
	RunID string `arg:"" name:"run" help:"Id of the run."`
	Call  string `arg:"" help:"The call's key, as 'pawl calls list' shows it."`
	Raw   bool   `help:"Print nothing but the raw answer that counts, byte for byte, or else the last one."`
}

// Run shows the call.
func (c *showCall) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := client.GetRunCall(ctx, &pawlv1.GetRunCallRequest{RunId: c.RunID, CallKey: c.Call})
	if err != nil {
		return coded(err)
	}
	switch {
	case c.Raw:
		_, err := s.Out.Write(rawOf(got.GetCall()))
		return err
	case c.JSON:
		return printJSON(s.Out, got.GetCall())
	default:
		return describeCall(s.Out, got.GetCall())
	}
}

// rawOf is the raw answer of the request that was answered, or else that of the last one that has any.
func rawOf(call *pawlv1.ModelCall) []byte {
	var raw []byte
	for _, t := range call.GetTries() {
		if t.GetState() == "answered" {
			return t.GetRawAnswer()
		}
		if len(t.GetRawAnswer()) > 0 {
			raw = t.GetRawAnswer()
		}
	}
	return raw
}

// describeCall writes everything that is stored of a call.
func describeCall(w io.Writer, call *pawlv1.ModelCall) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" && value != "0" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	line("call", call.GetCallKey())
	line("step", stepOf(call))
	line("state", call.GetState())
	line("question", fmt.Sprintf("number %d of generation %d", call.GetAsk(), call.GetGeneration()))
	line("prompt version", call.GetPromptVersion())
	line("cost", call.GetCostUsd()+" USD")
	line("replays", fmt.Sprint(call.GetReplays()))
	if call.GetCorrectedAt() != nil {
		line("corrected", call.GetCorrectedAt().AsTime().Format(time.RFC3339))
	}
	line("request", requestOf(call))
	for _, t := range call.GetTries() {
		fmt.Fprintf(table, "\nrequest %d\t%s/%s\n", t.GetTryNo(), t.GetProvider(), t.GetModel())
		describeTry(line, t)
	}
	return table.Flush()
}

func requestOf(call *pawlv1.ModelCall) string {
	if call.Request == nil {
		return "not kept (log-requests: none)"
	}
	return call.GetRequest().GetJson()
}

func describeTry(line func(name, value string), t *pawlv1.ModelTry) {
	line("state", t.GetState())
	line("reason", t.GetReason())
	line("message", t.GetMessage())
	line("HTTP status", fmt.Sprint(t.GetHttpStatus()))
	line("finish reason", t.GetFinishReason())
	line("provider's id", t.GetProviderRequestId())
	line("API key", t.GetKeyId())
	line("sent", t.GetSentAt().AsTime().Format(time.RFC3339Nano))
	line("permit wait", brief(t.GetPermitWait()))
	line("first byte", brief(t.GetFirstByte()))
	line("latency", brief(t.GetLatency()))
	line("tokens in", fmt.Sprintf("%d (%d from the cache, %d into it)", t.GetInputTokens(), t.GetCachedInputTokens(), t.GetCacheWriteTokens()))
	line("tokens out", fmt.Sprintf("%d (%d thought)", t.GetOutputTokens(), t.GetReasoningTokens()))
	line("cost", t.GetCostUsd()+" USD, "+t.GetCostBasis())
	line("answer", fmt.Sprintf("%d bytes of the form %s; see --raw", len(t.GetRawAnswer()), t.GetFormat()))
}
