package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

// llm is what an llm step asks.
type llm struct {
	route, system, prompt *expr.Template
	messages              *value
	params                []parameter
}

// Request is a question to a model.
type Request struct {
	// Route is the name under which the operator configured models.
	Route    string
	Messages []Message
	// What is nil was not set.
	Temperature, TopP *float64
	MaxOutputTokens   *int32
	Stop              []string
	Seed              *int64
}

// Message is one message of a conversation. Role is system, user or assistant.
type Message struct {
	Role, Content string
}

// parameter is a sampling parameter: a constant, or an expression that gives one.
type parameter struct {
	parameterKind
	value *value
}

type parameterKind struct {
	name  string
	kinds []expr.Kind
	// set checks a value that is not null, and sets it in the request.
	set func(r *Request, value any) error
}

func parameterKinds() []parameterKind {
	numbers, whole := []expr.Kind{expr.Number, expr.Integer}, []expr.Kind{expr.Integer, expr.Number}
	return []parameterKind{
		{"temperature", numbers, setTemperature},
		{"top_p", numbers, setTopP},
		{"max_output_tokens", whole, setMaxOutputTokens},
		{"stop", []expr.Kind{expr.List}, setStop},
		{"seed", whole, setSeed},
	}
}

func setTemperature(r *Request, value any) error {
	f, err := float(value)
	if err != nil || f < 0 || f > 2 {
		return errors.New("must be a number from 0 to 2")
	}
	r.Temperature = &f
	return nil
}

func setTopP(r *Request, value any) error {
	f, err := float(value)
	if err != nil || f <= 0 || f > 1 {
		return errors.New("must be a number above 0, up to 1")
	}
	r.TopP = &f
	return nil
}

func setMaxOutputTokens(r *Request, value any) error {
	i, err := integer(value, 32)
	if err != nil || i < 1 {
		return errors.New("must be a whole number from 1")
	}
	tokens := int32(i) //nolint:gosec // read as 32 bits
	r.MaxOutputTokens = &tokens
	return nil
}

func setSeed(r *Request, value any) error {
	i, err := integer(value, 64)
	if err != nil {
		return errors.New("must be a whole number of 64 bits")
	}
	r.Seed = &i
	return nil
}

func setStop(r *Request, value any) error {
	const most = 4
	problem := fmt.Errorf("must be a list of up to %d texts that are not empty", most)
	items, ok := value.([]any)
	if !ok || len(items) > most {
		return problem
	}
	r.Stop = nil
	for _, item := range items {
		stop, ok := item.(string)
		if !ok || stop == "" {
			return problem
		}
		r.Stop = append(r.Stop, stop)
	}
	return nil
}

func float(value any) (float64, error) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return n.Float64()
}

func integer(value any, bits int) (int64, error) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return strconv.ParseInt(string(n), 10, bits)
}

// llm compiles the block of an llm step, and gives the shape of its answer.
func (b *build) llm(s *Step, names expr.Names) *expr.Shape {
	where := s.where.then("llm")
	l := &llm{
		route:  b.template(where.then("route"), names),
		system: b.template(where.then("system"), names),
		prompt: b.template(where.then("prompt"), names),
	}
	s.Kind, s.llm = LLM, l
	s.PromptVersion = promptVersion(b.doc.root.find(where))
	s.OutputSchema = b.schema(where.then("output_schema"))
	b.conversation(l, where, names)
	if l.route != nil {
		b.wantKind(where.then("route"), l.route.Shape(), expr.String)
	}
	for _, kind := range parameterKinds() {
		if at := where.then(kind.name); b.has(at) {
			l.params = append(l.params, b.parameter(at, kind, names))
		}
	}
	s.BodyRefs = l.refs()
	if s.OutputSchema == nil {
		return &expr.Shape{Kind: expr.String}
	}
	return shapeOfSchema(b.doc.root.find(where.then("output_schema")))
}

// conversation compiles the messages, and checks that there are some.
func (b *build) conversation(l *llm, where path, names expr.Names) {
	prompt, messages := where.then("prompt"), where.then("messages")
	switch {
	case b.has(prompt) && b.has(messages):
		b.fail(messages, "there is prompt already; give only one of prompt, messages")
	case b.has(messages):
		l.messages = b.messages(messages, names)
	case b.found.reported(prompt) || b.found.reported(messages):
	case !b.has(prompt):
		b.fail(where, "has nothing to ask; give it a prompt or messages")
	case b.doc.root.find(prompt).value == "":
		b.fail(prompt, "is empty")
	}
}

func (b *build) messages(where path, names expr.Names) *value {
	n := b.doc.root.find(where)
	switch n.kind {
	case list:
		if len(n.items) == 0 {
			b.fail(where, "is empty")
		}
		for i, item := range n.items {
			b.message(where.then(i), item)
		}
	case text:
		if expression := b.expression(where, names, expr.List); expression == nil {
			return nil
		}
	default:
		b.fail(where, "must be a list of {role, content}, or an expression that gives one, and is %s", n.kind)
	}
	return b.value(where, names)
}

// message checks the form of a message that is written out.
func (b *build) message(where path, n *node) {
	if n.kind != object {
		b.fail(where, "must be {role, content}, and is %s", n.kind)
		return
	}
	for _, f := range n.fields {
		if f.key != "role" && f.key != "content" {
			b.found.add(f.at, where.then(f.key), "unknown field; known here are content, role")
		}
	}
	for _, key := range []string{"role", "content"} {
		switch value := n.field(key); {
		case value == nil:
			b.fail(where, "has no %s", key)
		case value.kind != text:
			b.fail(where.then(key), "must be a text, and is %s", value.kind)
		}
	}
	if role := n.field("role"); role != nil && role.kind == text && !isRole(role.value) && !isExpression(role.value) {
		b.fail(where.then("role"), "must be system, user or assistant")
	}
}

func isRole(role string) bool { return role == "system" || role == "user" || role == "assistant" }

func isExpression(value string) bool { return len(value) > 2 && value[:2] == "${" }

// parameter compiles a sampling parameter. A constant is checked at once.
func (b *build) parameter(where path, kind parameterKind, names expr.Names) parameter {
	p := parameter{kind, b.value(where, names)}
	if b.found.reported(where) {
		return p
	}
	if !p.value.refs().None() {
		b.wantKind(where, p.value.shape(), kind.kinds...)
		return p
	}
	constant, err := p.value.eval(expr.NewScope(expr.Data{}))
	if err == nil && constant != nil {
		err = kind.set(&Request{}, constant)
	}
	if err != nil {
		b.fail(where, "%s, or an expression that gives it", err)
	}
	return p
}

func (l *llm) refs() expr.Refs {
	refs := l.messages.refs()
	for _, template := range []*expr.Template{l.route, l.system, l.prompt} {
		if template != nil {
			refs = refs.Union(template.Refs())
		}
	}
	for _, p := range l.params {
		refs = refs.Union(p.value.refs())
	}
	return refs
}

// request fills in what is asked.
func (l *llm) request(scope *expr.Scope) (*Request, error) {
	r := &Request{Route: "default"}
	if l.route != nil {
		route, err := l.route.Value(scope)
		if err != nil {
			return nil, fmt.Errorf("route: %w", err)
		}
		name, ok := route.(string)
		if !ok || name == "" {
			return nil, errors.New("route: must give the name of a route")
		}
		r.Route = name
	}
	if err := l.converse(r, scope); err != nil {
		return nil, err
	}
	for _, p := range l.params {
		value, err := p.value.eval(scope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if value == nil {
			continue
		}
		if err := p.set(r, value); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return r, nil
}

// converse fills in the messages.
func (l *llm) converse(r *Request, scope *expr.Scope) error {
	if l.system != nil {
		system, err := l.system.Text(scope)
		if err != nil {
			return fmt.Errorf("system: %w", err)
		}
		if system != "" {
			r.Messages = append(r.Messages, Message{"system", system})
		}
	}
	if l.prompt != nil {
		prompt, err := l.prompt.Text(scope)
		if err != nil {
			return fmt.Errorf("prompt: %w", err)
		}
		r.Messages = append(r.Messages, Message{"user", prompt})
		return nil
	}
	messages, err := l.messages.eval(scope)
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	items, ok := messages.([]any)
	if !ok || len(items) == 0 {
		return errors.New("messages: must give a list of {role, content} that is not empty")
	}
	for i, item := range items {
		message, err := toMessage(item)
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		r.Messages = append(r.Messages, message)
	}
	return nil
}

func toMessage(item any) (Message, error) {
	fields, _ := item.(map[string]any)
	role, _ := fields["role"].(string)
	if !isRole(role) {
		return Message{}, errors.New("role must be system, user or assistant")
	}
	switch content := fields["content"].(type) {
	case string:
		return Message{role, content}, nil
	case nil:
		return Message{}, errors.New("content is missing")
	default:
		written, err := canon.Append(nil, content)
		return Message{role, string(written)}, err
	}
}
