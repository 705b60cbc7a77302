package compat

import (
	"encoding/json"
	"math"
	"slices"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

const (
	mostTokens = math.MaxInt32
	// mostStops is how many texts may end an answer.
	mostStops = 4
)

// chatRequest is a request for a completion.
type chatRequest struct {
	question *systemv1.GenerateRequest
	stream   bool
	// includeUsage asks for the counts at the end of a stream.
	includeUsage bool
}

// readChat turns the body into a question. What changes the answer and cannot be had here is refused by name; what changes
// nothing of it is ignored.
func readChat(f *fields) (*chatRequest, error) {
	c := &chatRequest{question: &systemv1.GenerateRequest{Params: &systemv1.SamplingParams{}}}
	c.question.Route = f.needText("model")
	c.readMessages(f)
	c.readTools(f)
	c.readFormat(f)
	c.readSampling(f)
	c.stream, _ = f.flag("stream")
	if options, ok := f.object("stream_options"); ok {
		c.includeUsage, _ = options.flag("include_usage")
		options.ignore("include_obfuscation")
		_ = options.end() // the problem is kept
		if !c.stream {
			f.fail("stream_options", "is for streams: send it with stream: true")
		}
	}
	f.ignore("user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prediction")
	f.refuse("n", "1")
	f.refuse("logprobs", "false")
	f.refuse("top_logprobs", "0")
	f.refuse("logit_bias", "{}")
	f.refuse("frequency_penalty", "0", "0.0")
	f.refuse("presence_penalty", "0", "0.0")
	f.refuse("modalities", `["text"]`)
	f.refuse("service_tier", `"auto"`, `"default"`)
	f.refuse("store", "false")
	f.refuse("parallel_tool_calls", "true")
	for _, member := range []string{"audio", "functions", "function_call", "reasoning_effort", "verbosity", "web_search_options", "moderation"} {
		f.refuse(member)
	}
	return c, f.end()
}

func (c *chatRequest) readSampling(f *fields) {
	p := c.question.GetParams()
	if value, ok := f.number("temperature", 0, 2); ok {
		p.Temperature = &value
	}
	if value, ok := f.number("top_p", 0, 1); ok {
		p.TopP = &value
	}
	if seed, ok := f.whole("seed", math.MinInt64, math.MaxInt64); ok {
		p.Seed = &seed
	}
	old, isOld := f.whole("max_tokens", 1, mostTokens)
	limit, isNew := f.whole("max_completion_tokens", 1, mostTokens)
	if isOld && isNew && old != limit {
		f.fail("max_tokens", "differs from max_completion_tokens: send one of them")
	}
	if isOld || isNew {
		tokens := int32(max(old, limit))
		p.MaxOutputTokens = &tokens
	}
	p.Stop = readStop(f)
}

// readStop reads a text or a list of texts.
func readStop(f *fields) []string {
	raw, ok := f.take("stop")
	if !ok {
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil || len(list) > mostStops || slices.Contains(list, "") {
		f.fail("stop", "must be a text, or a list of up to %d texts", mostStops)
		return nil
	}
	return list
}

// readFormat reads response_format. An answer that must be some JSON object is one that fits the schema of all objects.
func (c *chatRequest) readFormat(f *fields) {
	format, ok := f.object("response_format")
	if !ok {
		return
	}
	switch kind := format.needText("type"); kind {
	case "text":
	case "json_object":
		c.question.OutputSchema = []byte(`{"type":"object"}`)
	case "json_schema":
		if named, ok := format.object("json_schema"); ok {
			named.needText("name")
			named.ignore("description", "strict") // every schema is strict where the provider can have it so
			schema, ok := named.schema("schema")
			if !ok {
				named.fail("schema", "is missing")
			}
			c.question.OutputSchema = schema
			_ = named.end() // the problem is kept
		} else {
			format.fail("json_schema", "is missing")
		}
	default:
		format.fail("type", "must be text, json_object or json_schema")
	}
	_ = format.end() // the problem is kept
}

// readTools reads the functions that may be called, and which must be.
func (c *chatRequest) readTools(f *fields) {
	f.objects("tools", func(tool *fields) {
		if kind := tool.needText("type"); kind != "function" {
			tool.fail("type", "must be function: other tools are not supported here")
		}
		function, ok := tool.object("function")
		if !ok {
			tool.fail("function", "is missing")
			return
		}
		t := &systemv1.Tool{Name: function.needText("name")}
		t.Description, _ = function.text("description")
		t.Parameters, _ = function.schema("parameters")
		if strict, ok := function.flag("strict"); ok {
			t.Strict = &strict
		}
		_ = function.end() // the problem is kept
		c.question.Tools = append(c.question.Tools, t)
	})
	c.readToolChoice(f)
}

func (c *chatRequest) readToolChoice(f *fields) {
	const member = "tool_choice"
	raw, ok := f.take(member)
	if !ok {
		return
	}
	words := []string{"none", "auto", "required"}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if !slices.Contains(words, word) {
			f.fail(member, "must be none, auto, required, or an object that names a function")
		}
		if word == "required" && len(c.question.GetTools()) == 0 {
			f.fail(member, "is required, and there are no tools")
		}
		if len(c.question.GetTools()) > 0 {
			c.question.ToolChoice = word
		}
		return
	}
	choice, ok := f.objectOf(member, raw)
	if !ok {
		return
	}
	if kind := choice.needText("type"); kind != "function" {
		choice.fail("type", "must be function")
	}
	function, ok := choice.object("function")
	if !ok {
		choice.fail("function", "is missing")
		return
	}
	name := function.needText("name")
	known := slices.ContainsFunc(c.question.GetTools(), func(t *systemv1.Tool) bool { return t.GetName() == name })
	if !known || slices.Contains(words, name) {
		function.fail("name", "must be the name of one of the tools, and none of %v", words)
	}
	c.question.ToolChoice = name
	_ = function.end() // the problem is kept
	_ = choice.end()   // the problem is kept
}
