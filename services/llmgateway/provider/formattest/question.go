package formattest

import (
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider"
)

const (
	closedSchema = `{"type":"object","additionalProperties":false,"properties":{"party":{"type":"string"}},"required":["party"]}`
	openSchema   = `{"type":"object","properties":{"amount":{"type":"number","minimum":0}}}`
	pixel        = "data:image/png;base64,iVBORw0KGgo="
)

// questions are asked of every format, by name.
func questions() map[string]provider.Request {
	all := map[string]provider.Request{
		"plain":         {Messages: []*systemv1.Message{user("Договор <b>№ 7</b>")}},
		"system":        {Messages: []*systemv1.Message{system("Be brief."), user("Hi"), system("Be polite.")}},
		"system_alone":  {Messages: []*systemv1.Message{system("Say hello.")}},
		"turns":         {Messages: []*systemv1.Message{user("One."), user("Two."), assistant("Three."), user("Four.")}},
		"begins_late":   {Messages: []*systemv1.Message{assistant("Hello!"), user("Hi")}},
		"schema":        {Messages: []*systemv1.Message{user("Who?")}, Schema: []byte(closedSchema)},
		"schema_open":   {Messages: []*systemv1.Message{user("How much?")}, Schema: []byte(openSchema)},
		"schema_list":   {Messages: []*systemv1.Message{user("Who?")}, Schema: []byte(`{"type":"array","maxItems":3}`)},
		"params":        {Messages: []*systemv1.Message{user("Hi")}, Params: params()},
		"params_odd":    {Messages: []*systemv1.Message{user("Hi")}, Params: &systemv1.SamplingParams{Temperature: proto.Float64(1.5)}},
		"params_seed":   {Messages: []*systemv1.Message{user("Hi")}, Params: &systemv1.SamplingParams{Seed: proto.Int64(1 << 40)}},
		"params_stops":  {Messages: []*systemv1.Message{user("Hi")}, Params: &systemv1.SamplingParams{Stop: []string{"1", "2", "3", "4", "5", "6"}}},
		"stream":        {Messages: []*systemv1.Message{user("Hi")}, Stream: true},
		"long_answer":   {Messages: []*systemv1.Message{user("Write a book.")}, MaxOutputTokens: 64000},
		"tools":         {Messages: []*systemv1.Message{user("Weather?")}, Tools: tools()},
		"tools_schema":  {Messages: []*systemv1.Message{user("Weather?")}, Tools: tools(), Schema: []byte(openSchema)},
		"tool_unknown":  {Messages: []*systemv1.Message{user("Weather?")}, Tools: tools(), ToolChoice: "sunshine"},
		"tool_missing":  {Messages: []*systemv1.Message{user("Weather?")}, ToolChoice: "required"},
		"tool_none":     {Messages: []*systemv1.Message{user("Weather?")}, ToolChoice: "none"},
		"tool_results":  {Messages: conversation(), Tools: tools()},
		"tool_broken":   {Messages: brokenCall(), Tools: tools()},
		"tool_nobodys":  {Messages: []*systemv1.Message{user("Hi"), {Role: "tool", Content: "7", ToolCallId: "call_9"}}, Tools: tools()},
		"images":        {Messages: []*systemv1.Message{shows(pixel, "high"), shows("https://generativelanguage.googleapis.com/v1beta/files/7", "")}},
		"image_web":     {Messages: []*systemv1.Message{shows("https://images.example/cat.png", "")}},
		"image_plain":   {Messages: []*systemv1.Message{shows("http://images.example/cat.png", "")}},
		"image_no_data": {Messages: []*systemv1.Message{shows("data:text/plain,cat", "")}},
		"image_system":  {Messages: []*systemv1.Message{{Role: "system", Parts: []*systemv1.Part{imagePart(pixel, "")}}, user("Hi")}},
		"image_tool":    {Messages: append(conversation()[:2:2], &systemv1.Message{Role: "tool", ToolCallId: "call_1", Parts: []*systemv1.Part{imagePart(pixel, "")}})},
		"embed":         {Embed: []string{"один", "two"}},
		"embed_short":   {Embed: []string{"один"}, Dimensions: 3},
		"embed_many":    {Embed: make([]string, 101)},
	}
	for _, choice := range []string{"auto", "none", "required", "weather"} {
		all["tools_"+choice] = provider.Request{Messages: []*systemv1.Message{user("Weather?")}, Tools: tools(), ToolChoice: choice}
		all["tools_schema_"+choice] = provider.Request{
			Messages: []*systemv1.Message{user("Weather?")}, Tools: tools(), ToolChoice: choice, Schema: []byte(openSchema),
		}
	}
	for name, q := range all {
		q.ID, q.Model = "request-1", "small-1"
		if q.MaxOutputTokens == 0 {
			q.MaxOutputTokens = 700
		}
		all[name] = q
	}
	return all
}

func user(text string) *systemv1.Message { return &systemv1.Message{Role: "user", Content: text} }

func system(text string) *systemv1.Message { return &systemv1.Message{Role: "system", Content: text} }

func assistant(text string) *systemv1.Message {
	return &systemv1.Message{Role: "assistant", Content: text}
}

func imagePart(url, detail string) *systemv1.Part {
	return &systemv1.Part{Kind: &systemv1.Part_ImageUrl{ImageUrl: url}, Detail: detail}
}

func shows(url, detail string) *systemv1.Message {
	return &systemv1.Message{Role: "user", Content: "What is it?", Parts: []*systemv1.Part{
		imagePart(url, detail), {Kind: &systemv1.Part_Text{Text: "Be sure."}},
	}}
}

func params() *systemv1.SamplingParams {
	return &systemv1.SamplingParams{
		Temperature: proto.Float64(0), TopP: proto.Float64(0.9), Stop: []string{"END"}, Seed: proto.Int64(7), MaxOutputTokens: proto.Int32(700),
	}
}

func tools() []*systemv1.Tool {
	return []*systemv1.Tool{
		{Name: "weather", Description: "Tells the weather.", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`), Strict: proto.Bool(true)},
		{Name: "now"},
	}
}

// conversation has two calls at once, one of them without arguments, and their results.
func conversation() []*systemv1.Message {
	return []*systemv1.Message{
		user("Weather and time?"),
		{Role: "assistant", Content: "Let me see.", ToolCalls: []*systemv1.ToolCall{
			{Id: "call_1", Name: "weather", Arguments: `{"city": "Псков"}`}, {Id: "call_2", Name: "now"},
		}},
		{Role: "tool", ToolCallId: "call_1", Content: "rain"},
		{Role: "tool", ToolCallId: "call_2", Content: `{"time":"12:00"}`},
		user("Thanks!"),
	}
}

// brokenCall has a call whose arguments broke off.
func brokenCall() []*systemv1.Message {
	return []*systemv1.Message{
		user("Weather?"),
		{Role: "assistant", ToolCalls: []*systemv1.ToolCall{{Id: "call_1", Name: "weather", Arguments: `{"x":`}}},
		{Role: "tool", ToolCallId: "call_1", Content: "rain"},
	}
}
