package llmgateway

import (
	"encoding/json"
	"fmt"
	"strconv"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/canon"
)

// canonicalRequest is what the key covers of a request, in canonical JSON. What is not set does not appear, so that fields
// which come later leave the keys of older questions as they are.
func canonicalRequest(req *systemv1.GenerateRequest) ([]byte, error) {
	request := map[string]any{"route": req.GetRoute()}
	if len(req.GetMessages()) > 0 {
		request["messages"] = canonicalMessages(req.GetMessages())
	}
	if len(req.GetEmbed()) > 0 {
		request["embed"] = anys(req.GetEmbed())
	}
	if req.Dimensions != nil {
		request["dimensions"] = json.Number(strconv.FormatInt(int64(req.GetDimensions()), 10))
	}
	if params, err := canonicalParams(req.GetParams()); err != nil {
		return nil, err
	} else if len(params) > 0 {
		request["params"] = params
	}
	if req.OutputSchema != nil {
		schema, err := canon.Decode(req.GetOutputSchema())
		if err != nil {
			return nil, invalid("output_schema", err)
		}
		request["output_schema"] = schema
	}
	if tools, err := canonicalTools(req.GetTools()); err != nil {
		return nil, err
	} else if len(tools) > 0 {
		request["tools"] = tools
	}
	if req.GetToolChoice() != "" {
		request["tool_choice"] = req.GetToolChoice()
	}
	text, err := canon.Append(nil, request)
	if err != nil {
		return nil, invalid("messages", err)
	}
	return text, nil
}

func canonicalMessages(messages []*systemv1.Message) []any {
	list := make([]any, len(messages))
	for i, m := range messages {
		message := map[string]any{"role": m.GetRole(), "content": m.GetContent()}
		if parts := m.GetParts(); len(parts) > 0 {
			message["parts"] = canonicalParts(parts)
		}
		if calls := m.GetToolCalls(); len(calls) > 0 {
			message["tool_calls"] = canonicalCalls(calls)
		}
		if m.GetToolCallId() != "" {
			message["tool_call_id"] = m.GetToolCallId()
		}
		list[i] = message
	}
	return list
}

func canonicalParts(parts []*systemv1.Part) []any {
	list := make([]any, len(parts))
	for i, p := range parts {
		part := map[string]any{}
		switch kind := p.GetKind().(type) {
		case *systemv1.Part_Text:
			part["text"] = kind.Text
		case *systemv1.Part_ImageUrl:
			part["image_url"] = kind.ImageUrl
		}
		if p.GetDetail() != "" {
			part["detail"] = p.GetDetail()
		}
		list[i] = part
	}
	return list
}

func canonicalCalls(calls []*systemv1.ToolCall) []any {
	list := make([]any, len(calls))
	for i, c := range calls {
		list[i] = map[string]any{"id": c.GetId(), "name": c.GetName(), "arguments": c.GetArguments()}
	}
	return list
}

func canonicalTools(tools []*systemv1.Tool) ([]any, error) {
	list := make([]any, len(tools))
	for i, t := range tools {
		tool := map[string]any{"name": t.GetName()}
		if t.GetDescription() != "" {
			tool["description"] = t.GetDescription()
		}
		if t.Parameters != nil {
			schema, err := canon.Decode(t.GetParameters())
			if err != nil {
				return nil, invalid(fmt.Sprintf("tools[%d].parameters", i), err)
			}
			tool["parameters"] = schema
		}
		if t.Strict != nil {
			tool["strict"] = t.GetStrict()
		}
		list[i] = tool
	}
	return list, nil
}

// canonicalParams holds the parameters that are set.
func canonicalParams(p *systemv1.SamplingParams) (map[string]any, error) {
	set := map[string]any{}
	number := func(name, literal string) error {
		text, err := canon.Number(literal)
		if err != nil {
			return invalid("params."+name, err)
		}
		set[name] = json.Number(text)
		return nil
	}
	if p == nil {
		return set, nil
	}
	for name, value := range map[string]*float64{"temperature": p.Temperature, "top_p": p.TopP} {
		if value == nil {
			continue
		}
		if err := number(name, strconv.FormatFloat(*value, 'g', -1, 64)); err != nil {
			return nil, err
		}
	}
	if p.MaxOutputTokens != nil {
		set["max_output_tokens"] = json.Number(strconv.FormatInt(int64(p.GetMaxOutputTokens()), 10))
	}
	if p.Seed != nil {
		if err := number("seed", strconv.FormatInt(p.GetSeed(), 10)); err != nil {
			return nil, err
		}
	}
	if len(p.GetStop()) > 0 {
		set["stop"] = anys(p.GetStop())
	}
	return set, nil
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
