package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/suggest"
)

// maxTemplates bounds the templates of a pipeline that have expressions.
const maxTemplates = 2000

// build compiles one document. It goes on after problems, with what makes sense of the rest.
type build struct {
	env   *expr.Env
	doc   *document
	found *problems

	compiled *Compiled
	graph    graph
	input    *expr.Shape
	// templates counts the templates with expressions.
	templates int
	// outputs has the shapes of the outputs of the steps compiled so far, by the steps' places.
	outputs []*expr.Shape
}

func (b *build) pipeline() *Compiled {
	spec := b.doc.spec
	b.compiled = &Compiled{
		Name:           spec.GetName(),
		Version:        spec.GetVersion(),
		Description:    spec.GetDescription(),
		Labels:         maps.Clone(spec.GetLabels()),
		CallbackEvents: []string{"run.done", "run.failed", "run.cancelled"},
		UndoOnFailure:  spec.GetOnFailure() == "undo",
		UndoOnCancel:   spec.GetOnCancel() == "undo",
	}
	if spec.GetCallback() != nil && b.has(path{"callback", "events"}) {
		b.compiled.CallbackEvents = slices.Clone(spec.GetCallback().GetEvents())
	}
	b.compiled.Deadline, _ = b.duration(path{"deadline"})
	b.compiled.Budget = b.budget(path{"budget_usd"})
	b.compiled.input = b.schema(path{"input"})
	b.input = shapeOfSchema(b.doc.root.field("input"))
	b.concurrency(path{"concurrency"})
	b.steps()
	b.result(path{"output"})
	return b.compiled
}

func (b *build) budget(where path) money.Pico {
	if !b.has(where) || b.found.reported(where) {
		return 0
	}
	amount, err := money.Parse(b.doc.spec.GetBudgetUsd())
	if err != nil {
		b.fail(where, "%s", err)
	}
	return amount
}

// steps compiles the steps, those that are needed before those that need them.
func (b *build) steps() {
	specs := b.doc.spec.GetSteps()
	b.graph = b.buildGraph()
	b.compiled.Steps = make([]*Step, len(specs))
	b.outputs = make([]*expr.Shape, len(specs))
	for _, i := range b.graph.order {
		b.compiled.Steps[i], b.outputs[i] = b.step(i)
	}
}

// result finds the step whose output is the run's result. Nothing is computed where runs end: that is for steps.
func (b *build) result(where path) {
	steps := b.compiled.Steps
	if !b.has(where) {
		if len(steps) > 0 {
			b.compiled.ResultStep = steps[len(steps)-1]
		}
		return
	}
	output := b.doc.spec.GetOutput()
	known := make([]string, 0, len(steps))
	for _, step := range steps {
		reference := "${steps." + step.Name + ".output}"
		if output == reference {
			b.compiled.ResultStep = step
			return
		}
		known = append(known, reference)
	}
	if !b.found.reported(where) {
		b.fail(where, "must be the output of one step%s; a result that is to be computed is the output of a transform step",
			cmp.Or(suggest.DidYouMean(output, slices.Values(known)), ", such as "+known[len(known)-1]))
	}
}

// names gives what expressions may use that see the outputs of the given steps. From names the step that they stand in.
func (b *build) names(visible []int, from string) expr.Names {
	steps := map[string]*expr.Shape{}
	for _, i := range visible {
		steps[b.doc.spec.GetSteps()[i].GetName()] = b.outputs[i]
	}
	return expr.Names{Input: b.input, Steps: steps, Missing: func(step string) string { return b.missing(step, from) }}
}

func (b *build) missing(step, from string) string {
	var known []string
	for _, other := range b.doc.spec.GetSteps() {
		known = append(known, other.GetName())
	}
	switch {
	case step == from:
		return fmt.Sprintf("step %q cannot refer to its own output", step)
	case slices.Contains(known, step):
		return fmt.Sprintf("step %q does not wait for step %q; add %q to its needs", from, step, step)
	default:
		return fmt.Sprintf("there is no step %q%s", step, suggest.DidYouMean(step, slices.Values(known)))
	}
}

// has says whether the source has a value.
func (b *build) has(where path) bool { return b.doc.root.has(where) }

// fail reports a problem with a value.
func (b *build) fail(where path, format string, args ...any) {
	b.found.add(b.doc.root.find(where).at, where, format, args...)
}

// schema compiles a JSON Schema; nil if there is none.
func (b *build) schema(where path) *Schema {
	if !b.has(where) {
		return nil
	}
	n := b.doc.root.find(where)
	schema, errs := newSchema(n.appendJSON(nil))
	for _, err := range errs {
		b.fail(where.then(err.path(n)...), "%s", err.message)
	}
	return schema
}

// template compiles a text; nil if there is none, or it has problems.
func (b *build) template(where path, names expr.Names) *expr.Template {
	if !b.has(where) {
		return nil
	}
	return b.templateAt(b.doc.root.find(where), where, names)
}

func (b *build) templateAt(n *node, where path, names expr.Names) *expr.Template {
	template, err := b.parseTemplate(n.value, names)
	if err != nil {
		b.failTemplate(n, where, 0, err)
		return nil
	}
	return template
}

// parseTemplate bounds the templates with expressions: each takes about a millisecond to compile.
func (b *build) parseTemplate(text string, names expr.Names) (*expr.Template, error) {
	if strings.Contains(text, "${") {
		b.templates++
	}
	if b.templates > maxTemplates {
		return nil, fmt.Errorf("the pipeline has more than %d texts with expressions", maxTemplates)
	}
	return b.env.ParseTemplate(text, names)
}

func (b *build) failTemplate(n *node, where path, skipped int, err error) {
	errs, ok := errors.AsType[expr.Errors](err)
	if !ok {
		b.fail(where, "%s", err)
		return
	}
	for _, e := range errs {
		b.found.add(b.doc.source.within(n, skipped+e.Offset), where, "%s", e.Message)
	}
}

// expression compiles a text that must be nothing but one expression of a kind; nil if there is none, or it has problems.
func (b *build) expression(where path, names expr.Names, kind expr.Kind) *expr.Expr {
	if !b.has(where) {
		return nil
	}
	n := b.doc.root.find(where)
	trimmed := strings.TrimSpace(n.value)
	template, err := b.parseTemplate(trimmed, names)
	if err != nil {
		b.failTemplate(n, where, strings.Index(n.value, trimmed), err)
		return nil
	}
	expression := template.Expr()
	if expression == nil {
		b.fail(where, "must be one expression%s", expressionHint(trimmed))
		return nil
	}
	b.wantKind(where, expression.Shape(), kind)
	return expression
}

func expressionHint(value string) string {
	if strings.Contains(value, "${") || strings.ContainsAny(value, "\n") || len(value) > 60 {
		return ", with nothing around it"
	}
	return fmt.Sprintf("; write ${%s}", value)
}

// wantKind reports an expression whose result is known to be of another kind.
func (b *build) wantKind(where path, shape *expr.Shape, kinds ...expr.Kind) {
	if shape.Kind == expr.Unknown || slices.Contains(kinds, shape.Kind) {
		return
	}
	b.fail(where, "must give %s, and gives %s", kindName(kinds[0]), kindName(shape.Kind))
}

func kindName(kind expr.Kind) string {
	switch kind {
	case expr.Bool:
		return "true or false"
	case expr.Object:
		return "an object"
	default:
		return "a " + kind.String()
	}
}

// value compiles a template value.
func (b *build) value(where path, names expr.Names) *value {
	return b.valueAt(b.doc.root.find(where), where, names)
}

func (b *build) valueAt(n *node, where path, names expr.Names) *value {
	v := &value{kind: n.kind}
	switch n.kind {
	case text:
		v.template = b.templateAt(n, where, names)
		if v.template == nil { // has problems; stands in for the rest to go on
			return &value{kind: null}
		}
	case list:
		for i, item := range n.items {
			v.items = append(v.items, b.valueAt(item, where.then(i), names))
		}
	case object:
		for _, f := range n.fields {
			v.fields = append(v.fields, valueField{f.key, b.valueAt(f.value, where.then(f.key), names)})
		}
	default:
		v.constant = constantOf(n)
	}
	return v
}
