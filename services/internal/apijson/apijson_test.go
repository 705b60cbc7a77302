package apijson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/fault"
)

func TestMarshal(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC))
	tests := map[string]struct {
		in   proto.Message
		want string
	}{
		"a run that has just begun": {
			&pawlv1.Run{RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_RUNNING, CurrentStep: proto.String("sections"), StepsTotal: 3},
			`{"run_id":"r","status":"running","current_step":"sections","steps_done":0,"steps_total":3,"cost_so_far_usd":0}`,
		},
		"a run that has ended": {
			&pawlv1.Run{
				RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_DONE, StepsDone: 3, StepsTotal: 3, CostSoFarUsd: "0.000123456789",
				Class: pawlv1.RunClass_RUN_CLASS_BATCH, Labels: map[string]string{"z": "1", "a": "<&>"},
				Result: &pawlv1.JsonValue{Json: `{"b":1.10, "a":12345678901234567890,"a":"\u0041\ud800"}`}, FinishedAt: at,
			},
			`{"run_id":"r","status":"done","current_step":null,"steps_done":3,"steps_total":3,"cost_so_far_usd":0.000123456789,` +
				`"class":"batch","labels":{"a":"<&>","z":"1"},"result":{"b":1.10, "a":12345678901234567890,"a":"\u0041\ud800"},` +
				`"finished_at":"2026-01-02T03:04:05.600Z"}`,
		},
		"an empty list is a list":       {&pawlv1.ListRunsResponse{}, `{"runs":[]}`},
		"an empty document is null":     {&pawlv1.RunEvent{Detail: &pawlv1.JsonValue{}}, `{"seq":0,"attempt":0,"detail":null}`},
		"words of several parts":        {&pawlv1.GetRunResponse{Run: &pawlv1.Run{Status: pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW}}, `{"run":{"status":"needs_review","current_step":null,"steps_done":0,"steps_total":0,"cost_so_far_usd":0}}`},
		"an enumeration of the future":  {&pawlv1.CreateRunResponse{Status: 99}, `{"status":99,"replayed":false}`},
		"64 bits stay a number":         {&pawlv1.Document{Bytes: 9007199254740993}, `{"bytes":9007199254740993}`},
		"durations":                     {&pawlv1.ModelTry{Latency: durationpb.New(3500 * time.Millisecond)}, `{"try_no":0,"http_status":0,"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"latency":"3.500s","cache_write_tokens":0,"reasoning_tokens":0}`},
		"a false that matters":          {&pawlv1.ValidatePipelineResponse{}, `{"valid":false,"problems":[]}`},
		"shard 0 is not no shard":       {&pawlv1.RunStep{Shard: proto.Int32(0)}, `{"shard":0,"attempt":0,"input_tokens":0,"output_tokens":0,"generation":0}`},
		"values and structures inside":  {&pawlv1.Step{Name: "s", Kind: &pawlv1.Step_Transform{Transform: structpb.NewStringValue("${1}")}}, `{"name":"s","transform":"${1}"}`},
		"floats as JavaScript has them": {&pawlv1.RetryPolicy{Factor: proto.Float64(1e21), Jitter: proto.Float64(0.2)}, `{"factor":1e+21,"jitter":0.2}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := apijson.Marshal(tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	tests := map[string]struct {
		in   proto.Message
		want string
	}{
		"a document that is no JSON": {&pawlv1.Run{Result: &pawlv1.JsonValue{Json: "{"}}, "result: a pawl.v1.JsonValue of 1 bytes is not valid JSON"},
		"a number that is none":      {&pawlv1.Run{CostSoFarUsd: "+1"}, `cost_so_far_usd: "+1" is not a number`},
		"a number and more":          {&pawlv1.Run{CostSoFarUsd: `1,"a":2`}, `cost_so_far_usd: "1,\"a\":2" is not a number`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := apijson.Marshal(tt.in)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestUnmarshal(t *testing.T) {
	tests := map[string]struct {
		in         string
		into, want proto.Message
	}{
		"all kinds": {
			` {"pipeline": "p:v1", "input": {"n": 1.10, "n": 2, "s": "\ud800\u0000"} , "class": "batch", "priority": -5,
			   "labels": {"k": "a\tb"}, "deadline": "90s", "budget_usd": "0.50", "entity_id": null} `,
			&pawlv1.CreateRunRequest{},
			&pawlv1.CreateRunRequest{
				Pipeline: "p:v1", Input: &pawlv1.JsonValue{Json: `{"n": 1.10, "n": 2, "s": "\ud800\u0000"}`}, Class: pawlv1.RunClass_RUN_CLASS_BATCH,
				Priority: -5, Labels: map[string]string{"k": "a\tb"}, Deadline: durationpb.New(90 * time.Second), BudgetUsd: "0.50",
			},
		},
		"null is a document":         {`{"input":null}`, &pawlv1.CreateRunRequest{}, &pawlv1.CreateRunRequest{Input: &pawlv1.JsonValue{Json: "null"}}},
		"lists of messages":          {`{"messages":[{"role":"user","content":"é😀"}]}`, &pawlv1.CreateJobRequest{}, &pawlv1.CreateJobRequest{Messages: []*pawlv1.ChatMessage{{Role: "user", Content: "é😀"}}}},
		"numbers with all digits":    {`{"cost_so_far_usd":0.100000000000}`, &pawlv1.Run{}, &pawlv1.Run{CostSoFarUsd: "0.100000000000"}},
		"booleans":                   {`{"batch":true}`, &pawlv1.CreateJobRequest{}, &pawlv1.CreateJobRequest{Batch: true}},
		"nothing":                    {`{}`, &pawlv1.CreateRunRequest{}, &pawlv1.CreateRunRequest{}},
		"a choice, one of them null": {`{"source":"x","spec":null}`, &pawlv1.CreatePipelineRequest{}, &pawlv1.CreatePipelineRequest{Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: "x"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, apijson.Unmarshal([]byte(tt.in), tt.into))
			require.True(t, proto.Equal(tt.want, tt.into), "got %v", tt.into)
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	run := func() proto.Message { return &pawlv1.CreateRunRequest{} }
	job := func() proto.Message { return &pawlv1.CreateJobRequest{} }
	pipeline := func() proto.Message { return &pawlv1.CreatePipelineRequest{} }
	tests := map[string]struct {
		in    string
		into  func() proto.Message
		field string
		want  string
	}{
		"no object":              {`[1]`, run, "", "must be an object, not a list (line 1, column 1)"},
		"a null":                 {` null`, run, "", "must be an object, not null (line 1, column 2)"},
		"unknown field":          {"{\n  \"pipline\": 1}", run, "pipline", "is not a field here; the fields are pipeline, input, entity_id, class, priority, labels, callback_url, budget_usd, deadline, idempotency_key, not_before (line 2, column 14)"},
		"camelCase":              {`{"entityId":"x"}`, run, "entityId", "is not a field here; the fields are pipeline, input, entity_id, class, priority, labels, callback_url, budget_usd, deadline, idempotency_key, not_before (line 1, column 13)"},
		"given twice":            {`{"pipeline":"a","pipeline":"b"}`, run, "pipeline", "is given twice (line 1, column 28)"},
		"number for a text":      {`{"budget_usd":0.5}`, run, "budget_usd", "must be a text, not 0.5 (line 1, column 15)"},
		"text for a number":      {`{"priority":"1"}`, run, "priority", `must be a whole number from -2147483648 to 2147483647, not "1" (line 1, column 13)`},
		"fraction":               {`{"priority":1.5}`, run, "priority", "must be a whole number from -2147483648 to 2147483647, not 1.5 (line 1, column 13)"},
		"too large":              {`{"priority":2147483648}`, run, "priority", "must be a whole number from -2147483648 to 2147483647, not 2147483648 (line 1, column 13)"},
		"word in upper case":     {`{"class":"RUN_CLASS_BATCH"}`, run, "class", `must be one of interactive, batch, not "RUN_CLASS_BATCH" (line 1, column 10)`},
		"number for a word":      {`{"class":2}`, run, "class", "must be one of interactive, batch, not 2 (line 1, column 10)"},
		"the zero of words":      {`{"class":"unspecified"}`, run, "class", `must be one of interactive, batch, not "unspecified" (line 1, column 10)`},
		"text for a boolean":     {`{"batch":"true"}`, job, "batch", `must be true or false, not "true" (line 1, column 10)`},
		"deadline without unit":  {`{"deadline":90}`, run, "deadline", `must be a duration in seconds such as "3.5s" (line 1, column 13)`},
		"list for a map":         {`{"labels":[]}`, run, "labels", "must be an object, not a list (line 1, column 11)"},
		"number in a map":        {`{"labels":{"é":{"a":1}}}`, run, "labels.é", "must be a text, not an object (line 1, column 16)"},
		"twice in a map":         {`{"labels":{"a":"1","a":"2"}}`, run, "labels.a", "is given twice (line 1, column 24)"},
		"half a character":       {`{"entity_id":"\ud800"}`, run, "entity_id", `must be a text, not "\ud800" (line 1, column 14)`},
		"half a character, name": {`{"labels":{"\ud800":"1"}}`, run, "labels.\ufffd", "has a name with a character that is none (line 1, column 21)"},
		"object for a list":      {`{"messages":{}}`, job, "messages", "must be a list, not an object (line 1, column 13)"},
		"deep inside":            {"{\"messages\":[{\"role\":\"user\"},\n{\"contents\":1}]}", job, "messages[1].contents", "is not a field here; the fields are role, content (line 2, column 13)"},
		"null in a list":         {`{"messages":[null]}`, job, "messages[0]", "must be an object, not null (line 1, column 14)"},
		"both of a choice":       {`{"source":"x","spec":{}}`, pipeline, "spec", "cannot be given together with source (line 1, column 22)"},
		"beyond a float64":       {`{"spec":{"input":{"maximum":1e400}}}`, pipeline, "spec.input", "must be an object without numbers beyond a float64, names given twice, or half surrogate pairs (line 1, column 18)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := apijson.Unmarshal([]byte(tt.in), tt.into())
			require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT), "%v", err)
			require.Equal(t, []fault.Violation{{Field: tt.field, Message: tt.want}}, fault.Of(err).Violations)
		})
	}
}

func TestUnmarshalReportsEverything(t *testing.T) {
	err := apijson.Unmarshal([]byte(`{"a":1,"priority":"x","labels":{"k":1}}`), &pawlv1.CreateRunRequest{})
	var fields []string
	for _, v := range fault.Of(err).Violations {
		fields = append(fields, v.Field)
	}
	require.Equal(t, []string{"a", "priority", "labels.k"}, fields)

	err = apijson.Unmarshal([]byte(`{"messages":[`+strings.Repeat(`1,`, 1000)+`1]}`), &pawlv1.CreateJobRequest{})
	require.Len(t, fault.Of(err).Violations, 20)
}

func TestUnmarshalMalformed(t *testing.T) {
	tests := map[string]struct{ in, field, want string }{
		"nothing":         {"", "line 1, column 1", "unexpected end of JSON input (byte 0)"},
		"cut off":         {"{\"pipeline\": \"p\",\n \"input\": {", "line 2, column 12", "unexpected end of JSON input (byte 29)"},
		"missing comma":   {"{\"é\": 1\n  \"b\": 2}", "line 2, column 3", "invalid character '\"' after object key:value pair (byte 11)"},
		"trailing comma":  {`{"a":1,}`, "line 1, column 8", "invalid character '}' looking for beginning of object key string (byte 7)"},
		"single quotes":   {`{'a':1}`, "line 1, column 2", `invalid character '\'' looking for beginning of object key string (byte 1)`},
		"two values":      {`{} {}`, "line 1, column 4", "invalid character '{' after top-level value (byte 3)"},
		"bad UTF-8":       {"{\"a\":\"\xff\"}", "line 1, column 7", "the text is not valid UTF-8 (byte 6)"},
		"raw line feed":   {"{\"a\":\"x\ny\"}", "line 1, column 8", `invalid character '\n' in string literal (byte 7)`},
		"too deep":        {strings.Repeat("[", 1001) + strings.Repeat("]", 1001), "line 1, column 1001", "nested deeper than 1000 (byte 1000)"},
		"much too deep":   {strings.Repeat("[", 100_000), "line 1, column 10001", "invalid character '[' exceeded max depth (byte 10000)"},
		"brackets quoted": {`"` + strings.Repeat(`\"[`, 2000), "line 1, column 6002", "unexpected end of JSON input (byte 6001)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := apijson.Unmarshal([]byte(tt.in), &pawlv1.CreateRunRequest{})
			require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_MALFORMED_BODY), "%v", err)
			require.Equal(t, []fault.Violation{{Field: tt.field, Message: tt.want}}, fault.Of(err).Violations)
		})
	}
}

func TestSetParameter(t *testing.T) {
	query := &pawlv1.ListRunsRequest{}
	require.NoError(t, apijson.SetParameter(query, "status", []string{"needs_review"}))
	require.NoError(t, apijson.SetParameter(query, "page_size", []string{"20"}))
	require.NoError(t, apijson.SetParameter(query, "entity_id", []string{"é"}))
	want := &pawlv1.ListRunsRequest{Status: pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW, PageSize: 20, EntityId: "é"}
	require.True(t, proto.Equal(want, query), "got %v", query)

	refused := map[string]struct {
		name   string
		values []string
		want   string
	}{
		"unknown": {"pagesize", []string{"1"}, "is not a parameter here; the parameters are page_size, page_token, status, pipeline, entity_id, class, reason, batch_id"},
		"twice":   {"class", []string{"batch", "batch"}, "is given more than once"},
		"number":  {"page_size", []string{"ten"}, `must be a whole number from -2147483648 to 2147483647, not "ten"`},
		"UTF-8":   {"entity_id", []string{"a\xff"}, `must be a text in UTF-8, not "a\xff"`},
		"word":    {"status", []string{"RUNNING"}, `must be one of queued, running, needs_review, compensating, done, failed, cancelled, not "RUNNING"`},
		"long":    {"page_size", []string{strings.Repeat("é", 100)}, `must be a whole number from -2147483648 to 2147483647, not "` + strings.Repeat("é", 40) + `…"`},
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			err := apijson.SetParameter(&pawlv1.ListRunsRequest{}, tt.name, tt.values)
			require.Equal(t, []fault.Violation{{Field: tt.name, Message: tt.want}}, fault.Of(err).Violations)
		})
	}
}

// TestEveryWordRoundTrips holds for each enumeration of the public API, also those that come later.
func TestEveryWordRoundTrips(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{pawlv1.File_pawl_v1_run_proto, pawlv1.File_pawl_v1_job_proto} {
		for i := range file.Enums().Len() {
			values := file.Enums().Get(i).Values()
			require.True(t, strings.HasSuffix(string(values.Get(0).Name()), "_UNSPECIFIED"))
			for j := 1; j < values.Len(); j++ {
				word := apijson.Word(values.Get(j))
				require.Regexp(t, `^[a-z][a-z_]*$`, word)
			}
		}
	}
}

// FuzzUnmarshal: no text makes reading panic; what is accepted is written and read back unchanged; and what is refused is
// refused with a reason and a place.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"pipeline":"p:v1","input":{"a":[1,2.50,"\u0000"]},"class":"batch","labels":{"k":"v"},"deadline":"1.5s"}`))
	f.Add([]byte(`{"input":null,"priority":-3,"budget_usd":"0.1"}`))
	f.Add([]byte("{\"entity_id\":\"\xff\"}"))
	f.Add([]byte(`{"input":"\ud800","labels":{"\udfff":"x"}}`))
	f.Add([]byte(`{"deadline":"1e3s"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		first := &pawlv1.CreateRunRequest{}
		if err := apijson.Unmarshal(raw, first); err != nil {
			require.NotEmpty(t, fault.Of(err).Violations)
			require.NotEqual(t, faultv1.ErrorReason_ERROR_REASON_INTERNAL, fault.Of(err).Reason)
			return
		}
		text, err := apijson.Marshal(first)
		require.NoError(t, err)
		require.True(t, json.Valid(text))
		second := &pawlv1.CreateRunRequest{}
		require.NoError(t, apijson.Unmarshal(text, second))
		require.True(t, proto.Equal(first, second), "%v\n%v", first, second)
		if input := first.GetInput(); input != nil {
			require.Contains(t, string(raw), input.GetJson())
		}
	})
}
