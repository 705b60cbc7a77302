package intake_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pipeline"
)

// still is the part of a boot.Service that the fakes do not need.
type still struct{}

func (still) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (still) Ready(context.Context) error   { return nil }
func (still) Drain(context.Context)         {}

// orchestrator keeps what it is told in memory, by the contract of the real one.
type orchestrator struct {
	still
	systemv1.UnimplementedOrchestratorServiceServer

	mu        sync.Mutex
	calls     []string
	away      error
	created   []*systemv1.CreateRunRequest
	actions   []string
	moreSteps string // token of the next page of steps
	runs      map[string]*stored
	documents map[string]*systemv1.CreateDocumentRequest
	pipelines map[string][]*pawlv1.Pipeline // by tenant
	keys      map[string]key
	shares
	batches fakeBatches
}

type stored struct {
	tenant, kind string
	run          *pawlv1.Run
}

type key struct{ digest, id string }

func newOrchestrator() *orchestrator {
	return &orchestrator{
		runs: map[string]*stored{}, documents: map[string]*systemv1.CreateDocumentRequest{},
		pipelines: map[string][]*pawlv1.Pipeline{}, keys: map[string]key{},
		batches: fakeBatches{made: map[string]*fakeBatch{}},
	}
}

func (o *orchestrator) Register(r grpc.ServiceRegistrar) {
	systemv1.RegisterOrchestratorServiceServer(r, o)
}

// begin notes a call; the fake is locked until the returned func is called.
func (o *orchestrator) begin(method string) (func(), error) {
	o.mu.Lock()
	o.calls = append(o.calls, method)
	return o.mu.Unlock, o.away
}

func (o *orchestrator) setAway(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = err
}

// taken returns the calls since the last time.
func (o *orchestrator) taken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

// set changes a run; every change gives it another etag.
func (o *orchestrator) set(id string, change func(*pawlv1.Run)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	run := proto.CloneOf(o.runs[id].run)
	change(run)
	tag, _ := strconv.Atoi(run.GetEtag())
	run.Etag = strconv.Itoa(tag + 1)
	o.runs[id].run = run
}

// once resolves an idempotency key: to the earlier id, or to a new one.
func (o *orchestrator) once(tenant string, i *systemv1.Idempotency) (id string, replayed bool, err error) {
	name, digest := tenant+"\x00"+i.GetKey(), string(i.GetRequestDigest())
	if known, ok := o.keys[name]; ok {
		if known.digest != digest {
			return "", false, fault.New(faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
				"the key was used before with another request")
		}
		return known.id, true, nil
	}
	id = fmt.Sprintf("01890000-0000-7000-8000-%012d", len(o.keys)+1)
	o.keys[name] = key{digest, id}
	return id, false, nil
}

func (o *orchestrator) CreateRun(_ context.Context, req *systemv1.CreateRunRequest) (*systemv1.CreateRunResponse, error) {
	end, err := o.begin("CreateRun")
	defer end()
	if err != nil {
		return nil, err
	}
	id, replayed, err := o.once(req.GetTenant(), req.GetIdempotency())
	if err != nil {
		return nil, err
	}
	if !replayed {
		o.created = append(o.created, req)
		o.runs[id] = &stored{req.GetTenant(), req.GetKind(), &pawlv1.Run{
			RunId: id, Status: pawlv1.RunStatus_RUN_STATUS_QUEUED, StepsTotal: 3, CurrentStep: new("sections"), Etag: "1",
			Pipeline: req.GetPipeline(), Class: req.GetClass(), EntityId: req.GetEntityId(), CostSoFarUsd: "0",
		}}
	}
	return &systemv1.CreateRunResponse{RunId: id, Status: o.runs[id].run.GetStatus(), Replayed: replayed}, nil
}

// FindSubmission answers as CreateRun would, without making anything.
func (o *orchestrator) FindSubmission(_ context.Context, req *systemv1.FindSubmissionRequest) (*systemv1.FindSubmissionResponse, error) {
	end, err := o.begin("FindSubmission")
	defer end()
	if err != nil {
		return nil, err
	}
	if _, known := o.keys[req.GetTenant()+"\x00"+req.GetIdempotency().GetKey()]; !known {
		return &systemv1.FindSubmissionResponse{}, nil
	}
	id, _, err := o.once(req.GetTenant(), req.GetIdempotency())
	if err != nil {
		return nil, err
	}
	if found, ok := o.runs[id]; ok {
		return &systemv1.FindSubmissionResponse{ResourceId: id, Kind: found.kind, Status: found.run.GetStatus()}, nil
	}
	return &systemv1.FindSubmissionResponse{ResourceId: id, Kind: "document"}, nil
}

func (o *orchestrator) find(tenant, id string) (*stored, error) {
	if found, ok := o.runs[id]; ok && found.tenant == tenant {
		return found, nil
	}
	return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, "there is no run %s", id)
}

func (o *orchestrator) GetRun(_ context.Context, req *systemv1.GetRunRequest) (*systemv1.GetRunResponse, error) {
	end, err := o.begin("GetRun")
	defer end()
	if err != nil {
		return nil, err
	}
	found, err := o.find(req.GetTenant(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &systemv1.GetRunResponse{Run: found.run, Kind: found.kind}, nil
}

// ListRuns lists by id; its page tokens are the last id of the page.
func (o *orchestrator) ListRuns(_ context.Context, req *systemv1.ListRunsRequest) (*systemv1.ListRunsResponse, error) {
	end, err := o.begin(fmt.Sprintf("ListRuns %d", req.GetQuery().GetPageSize()))
	defer end()
	if err != nil {
		return nil, err
	}
	var ids []string
	for id, each := range o.runs {
		if each.tenant == req.GetTenant() && id > req.GetQuery().GetPageToken() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	page := &systemv1.ListRunsResponse{}
	if size := int(req.GetQuery().GetPageSize()); len(ids) > size {
		ids = ids[:size]
		page.NextPageToken = ids[size-1]
	}
	for _, id := range ids {
		page.Runs = append(page.Runs, o.runs[id].run)
	}
	return page, nil
}

func (o *orchestrator) ListRunSteps(_ context.Context, req *systemv1.ListRunStepsRequest) (*systemv1.ListRunStepsResponse, error) {
	end, err := o.begin(fmt.Sprintf("ListRunSteps %d%s", req.GetPageSize(), req.GetPageToken()))
	defer end()
	if err != nil {
		return nil, err
	}
	if _, err := o.find(req.GetTenant(), req.GetRunId()); err != nil {
		return nil, err
	}
	return &systemv1.ListRunStepsResponse{Steps: []*pawlv1.RunStep{{
		Name: "sections", Status: pawlv1.StepStatus_STEP_STATUS_DONE, Attempt: 1, CostUsd: "0.0001",
		Output: &pawlv1.JsonValue{Json: `{"n": 1.50}`},
	}}, NextPageToken: o.moreSteps}, nil
}

func (o *orchestrator) ListRunEvents(_ context.Context, req *systemv1.ListRunEventsRequest) (*systemv1.ListRunEventsResponse, error) {
	end, err := o.begin(fmt.Sprintf("ListRunEvents %d", req.GetQuery().GetPageSize()))
	defer end()
	if err != nil {
		return nil, err
	}
	if _, err := o.find(req.GetTenant(), req.GetQuery().GetRunId()); err != nil {
		return nil, err
	}
	return &systemv1.ListRunEventsResponse{
		Events: []*pawlv1.RunEvent{{Seq: 1, Actor: "system", Kind: "run_created"}}, NextPageToken: "1",
	}, nil
}

func (o *orchestrator) CancelRun(_ context.Context, req *systemv1.CancelRunRequest) (*systemv1.CancelRunResponse, error) {
	end, err := o.begin("CancelRun")
	defer end()
	if err != nil {
		return nil, err
	}
	found, err := o.find(req.GetTenant(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	o.actions = append(o.actions, strings.TrimSpace("cancel "+req.GetActor()+" "+req.GetReason()+" "+req.GetEtag()))
	return &systemv1.CancelRunResponse{Run: found.run}, nil
}

func (o *orchestrator) RetryRun(_ context.Context, req *systemv1.RetryRunRequest) (*systemv1.RetryRunResponse, error) {
	end, err := o.begin("RetryRun")
	defer end()
	if err != nil {
		return nil, err
	}
	if _, err := o.find(req.GetTenant(), req.GetRunId()); err != nil {
		return nil, err
	}
	o.actions = append(o.actions, "retry "+req.GetActor()+" "+req.GetReason())
	return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "the run is queued, and only a failed one can be retried")
}

func (o *orchestrator) RerunRun(_ context.Context, req *systemv1.RerunRunRequest) (*systemv1.RerunRunResponse, error) {
	end, err := o.begin("RerunRun")
	defer end()
	if err != nil {
		return nil, err
	}
	found, err := o.find(req.GetTenant(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	o.actions = append(o.actions, fmt.Sprintf("rerun %s %s from %s keeping %t as %s", req.GetActor(), req.GetReason(),
		req.GetFromStep(), req.GetKeepEffects(), req.GetEtag()))
	return &systemv1.RerunRunResponse{Run: found.run}, nil
}

func (o *orchestrator) PromoteRun(_ context.Context, req *systemv1.PromoteRunRequest) (*systemv1.PromoteRunResponse, error) {
	end, err := o.begin("PromoteRun")
	defer end()
	if err != nil {
		return nil, err
	}
	found, err := o.find(req.GetTenant(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	o.actions = append(o.actions, fmt.Sprintf("promote %s %s to %s as %s", req.GetActor(), req.GetReason(), req.GetClass(), req.GetEtag()))
	return &systemv1.PromoteRunResponse{Run: found.run}, nil
}

func (o *orchestrator) CreatePipeline(_ context.Context, req *systemv1.CreatePipelineRequest) (*systemv1.CreatePipelineResponse, error) {
	end, err := o.begin("CreatePipeline")
	defer end()
	if err != nil {
		return nil, err
	}
	return o.addPipeline(req.GetTenant(), req.GetSource(), req.GetCreatedBy())
}

func (o *orchestrator) addPipeline(tenant, source, by string) (*systemv1.CreatePipelineResponse, error) {
	compiler, err := pipeline.NewCompiler()
	if err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile("", []byte(source))
	if err != nil {
		return nil, err
	}
	digest := hex.EncodeToString(compiled.Digest[:])
	for _, known := range o.pipelines[tenant] {
		switch {
		case known.GetName() != compiled.Name || known.GetVersion() != compiled.Version:
		case known.GetDigest() == digest:
			return &systemv1.CreatePipelineResponse{Pipeline: known}, nil
		default:
			return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_EXISTS, "%s:%s is stored with another content",
				compiled.Name, compiled.Version)
		}
	}
	p := &pawlv1.Pipeline{Name: compiled.Name, Version: compiled.Version, Digest: digest, Source: source, CreatedBy: by}
	for _, step := range compiled.Steps {
		p.Steps = append(p.Steps, step.Name)
	}
	o.pipelines[tenant] = append(o.pipelines[tenant], p)
	return &systemv1.CreatePipelineResponse{Pipeline: p, Created: true}, nil
}

func (o *orchestrator) GetPipeline(_ context.Context, req *systemv1.GetPipelineRequest) (*systemv1.GetPipelineResponse, error) {
	end, err := o.begin("GetPipeline")
	defer end()
	if err != nil {
		return nil, err
	}
	name, version, _ := strings.Cut(req.GetName(), ":")
	for _, known := range slices.Backward(o.pipelines[req.GetTenant()]) {
		if known.GetName() == name && (version == "" || known.GetVersion() == version) {
			return &systemv1.GetPipelineResponse{Pipeline: known}, nil
		}
	}
	return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND, "there is no pipeline %s", req.GetName())
}

func (o *orchestrator) ListPipelines(_ context.Context, req *systemv1.ListPipelinesRequest) (*systemv1.ListPipelinesResponse, error) {
	end, err := o.begin("ListPipelines")
	defer end()
	return &systemv1.ListPipelinesResponse{Pipelines: o.pipelines[req.GetTenant()]}, err
}

func (o *orchestrator) CreateDocument(_ context.Context, req *systemv1.CreateDocumentRequest) (*systemv1.CreateDocumentResponse, error) {
	end, err := o.begin("CreateDocument")
	defer end()
	if err != nil {
		return nil, err
	}
	id, replayed, err := o.once(req.GetTenant(), req.GetIdempotency())
	if err == nil && !replayed {
		o.documents[id] = req
	}
	return &systemv1.CreateDocumentResponse{DocumentId: id, Replayed: replayed}, err
}

func (o *orchestrator) GetDocument(_ context.Context, req *systemv1.GetDocumentRequest) (*systemv1.GetDocumentResponse, error) {
	end, err := o.begin("GetDocument")
	defer end()
	if err != nil {
		return nil, err
	}
	found, ok := o.documents[req.GetDocumentId()]
	if !ok || found.GetTenant() != req.GetTenant() {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_DOCUMENT_NOT_FOUND, "there is no document %s", req.GetDocumentId())
	}
	sum := sha256.Sum256(found.GetContent())
	answer := &systemv1.GetDocumentResponse{Document: &pawlv1.Document{
		DocumentId: req.GetDocumentId(), ExternalId: found.GetExternalId(), MediaType: found.GetMediaType(),
		Bytes: int64(len(found.GetContent())), Sha256: hex.EncodeToString(sum[:]),
	}}
	if req.GetWithContent() {
		answer.Content = found.GetContent()
	}
	return answer, nil
}

// forgetDocuments lets all documents expire.
func (o *orchestrator) forgetDocuments() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.documents)
}

// gateway knows the model "small", until it is to forget it.
type gateway struct {
	still
	systemv1.UnimplementedGatewayServiceServer

	mu     sync.Mutex
	calls  []string
	away   error
	forgot bool
	spend  *systemv1.GetSpendRequest
	month  map[string]*int64 // budgets by tenant
}

// spendAsked is the last question for what was spent.
func (g *gateway) spendAsked() *systemv1.GetSpendRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spend
}

func (g *gateway) GetSpend(_ context.Context, req *systemv1.GetSpendRequest) (*systemv1.GetSpendResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spend = req
	return &systemv1.GetSpendResponse{Rows: []*pawlv1.SpendRow{
		{Model: "small", Tenant: req.GetTenant(), Requests: 2, CostUsd: "0.000000000002"},
		{Model: "large", Tenant: req.GetTenant(), CostUsd: "0.1"},
	}}, nil
}

func (g *gateway) SetBudget(_ context.Context, req *systemv1.SetBudgetRequest) (*systemv1.SetBudgetResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.month == nil {
		g.month = map[string]*int64{}
	}
	g.month[req.GetTenant()] = req.MonthPicoUsd //nolint:protogetter // absent is not 0
	return &systemv1.SetBudgetResponse{}, nil
}

func (g *gateway) GetBudget(_ context.Context, req *systemv1.GetBudgetRequest) (*systemv1.GetBudgetResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	budget := &pawlv1.Budget{Tenant: req.GetTenant(), SpentUsd: "0", ReservedUsd: "0"}
	if amount := g.month[req.GetTenant()]; amount != nil {
		budget.MonthUsd = proto.String(money.Pico(*amount).String())
	}
	return &systemv1.GetBudgetResponse{Budget: budget}, nil
}

func (g *gateway) forgetModels() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgot = true
}

func (g *gateway) Register(r grpc.ServiceRegistrar) { systemv1.RegisterGatewayServiceServer(r, g) }

func (g *gateway) begin(method string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, method)
	return g.away
}

func (g *gateway) setAway(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = err
}

func (g *gateway) taken() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

func (g *gateway) GetRoute(_ context.Context, req *systemv1.GetRouteRequest) (*systemv1.GetRouteResponse, error) {
	if err := g.begin("GetRoute"); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if req.GetName() != "small" || g.forgot {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN, "there is no model %s", req.GetName())
	}
	return &systemv1.GetRouteResponse{Targets: []string{"simulated/small"}}, nil
}

func (g *gateway) GetCall(_ context.Context, req *systemv1.GetCallRequest) (*systemv1.GetCallResponse, error) {
	call := &pawlv1.ModelCall{
		CallKey: hex.EncodeToString(req.GetCallKey()), Step: "fields", State: "answered",
		Request: &pawlv1.JsonValue{Json: `{"route":"default"}`}, Tries: []*pawlv1.ModelTry{{TryNo: 1, RawAnswer: []byte("{}")}},
	}
	return &systemv1.GetCallResponse{Call: call}, g.begin("GetCall")
}

func (g *gateway) ListCalls(_ context.Context, req *systemv1.ListCallsRequest) (*systemv1.ListCallsResponse, error) {
	return &systemv1.ListCallsResponse{Calls: []*pawlv1.ModelCall{{CallKey: hex.EncodeToString(req.GetRunId())}}}, g.begin("ListCalls")
}
