package compat

import (
	"encoding/json"
	"fmt"
	"strings"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// readMessages reads the conversation.
func (c *chatRequest) readMessages(f *fields) {
	const member = "messages"
	f.objects(member, func(said *fields) {
		m := &systemv1.Message{}
		role := said.needText("role")
		switch role {
		case "system", "user", "assistant", "tool":
			m.Role = role
		case "developer":
			m.Role = "system"
		default:
			said.fail("role", "must be system, developer, user, assistant or tool")
		}
		readContent(said, m)
		said.refuse("name")
		switch role {
		case "assistant":
			readAssistant(said, m)
		case "tool":
			m.ToolCallId = said.needText("tool_call_id")
		}
		if m.GetContent() == "" && len(m.GetParts()) == 0 && len(m.GetToolCalls()) == 0 {
			said.fail("content", "is missing")
		}
		c.question.Messages = append(c.question.Messages, m)
	})
	if len(c.question.GetMessages()) == 0 {
		f.fail(member, "must be a list of one message or more")
	}
}

// readAssistant reads what only the messages of the model have. Clients send them back as they came.
func readAssistant(said *fields, m *systemv1.Message) {
	if refusal, ok := said.text("refusal"); ok && refusal != "" && m.GetContent() == "" && len(m.GetParts()) == 0 {
		m.Content = refusal
	}
	said.refuse("audio")
	said.refuse("function_call")
	said.ignore("annotations")
	said.objects("tool_calls", func(call *fields) {
		t := &systemv1.ToolCall{Id: call.needText("id")}
		if kind := call.needText("type"); kind != "function" {
			call.fail("type", "must be function")
		}
		call.ignore("index")
		function, ok := call.object("function")
		if !ok {
			call.fail("function", "is missing")
			return
		}
		t.Name = function.needText("name")
		t.Arguments, _ = function.text("arguments")
		_ = function.end() // the problem is kept
		m.ToolCalls = append(m.ToolCalls, t)
	})
}

// readContent reads a text, or a list of parts. A text that comes first is the message's own; what else it shows follows.
func readContent(said *fields, m *systemv1.Message) {
	const member = "content"
	raw, ok := said.take(member)
	if !ok {
		return
	}
	if json.Unmarshal(raw, &m.Content) == nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		said.fail(member, "must be a text or a list of parts")
		return
	}
	for i, each := range list {
		part, ok := said.objectOf(fmt.Sprintf("%s[%d]", member, i), each)
		if !ok {
			return
		}
		p := readPart(part, m.GetRole())
		_ = part.end() // the problem is kept
		if said.first.problem != nil {
			return
		}
		if text := p.GetText(); i == 0 && text != "" {
			m.Content = text
			continue
		}
		m.Parts = append(m.Parts, p)
	}
}

func readPart(f *fields, role string) *systemv1.Part {
	switch kind := f.needText("type"); kind {
	case "text":
		return &systemv1.Part{Kind: &systemv1.Part_Text{Text: f.needText("text")}}
	case "refusal":
		return &systemv1.Part{Kind: &systemv1.Part_Text{Text: f.needText("refusal")}}
	case "image_url":
		if role != "user" {
			f.fail("type", "must be text: only users show images")
		}
		return readImage(f)
	default:
		f.fail("type", "must be text or image_url: %q is not supported here", kind)
		return nil
	}
}

func readImage(f *fields) *systemv1.Part {
	image, ok := f.object("image_url")
	if !ok {
		f.fail("image_url", "is missing")
		return nil
	}
	address := image.needText("url")
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "data:image/") {
		image.fail("url", "must be an https address, or a data URL of an image")
	}
	p := &systemv1.Part{Kind: &systemv1.Part_ImageUrl{ImageUrl: address}}
	p.Detail, _ = image.text("detail")
	switch p.GetDetail() {
	case "", "auto", "low", "high":
	default:
		image.fail("detail", "must be auto, low or high")
	}
	_ = image.end() // the problem is kept
	return p
}
