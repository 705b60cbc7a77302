package expr

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"pawl.internal/services/internal/suggest"
)

// optionalSelect and optionalIndex are what CEL makes of a.?b and a[?b].
const (
	optionalSelect = "_?._"
	optionalIndex  = "_[?_]"
)

// Names are the names that an expression may use where it stands, with what is known of their values.
type Names struct {
	// Input is the shape of the run's input; nil if unknown.
	Input *Shape
	// Steps has the shapes of the outputs that may be referred to.
	Steps map[string]*Shape
	// Item is the shape of the fan-out's item; nil where there is no item.
	Item *Shape
	// Output is the shape of the result under review or validation; nil where there is none.
	Output *Shape
	// Missing says what is wrong with referring to a step that Steps does not have. May be nil.
	Missing func(step string) string
}

// Refs says what an expression refers to.
type Refs struct {
	Input, Item, Index, Output, Run bool
	// Steps are the names of the steps whose outputs it refers to, sorted.
	Steps []string
}

// None says whether it refers to nothing: its value is always the same.
func (r Refs) None() bool {
	return !r.Input && !r.Item && !r.Index && !r.Output && !r.Run && len(r.Steps) == 0
}

// Union is what either refers to.
func (r Refs) Union(other Refs) Refs {
	steps := slices.Concat(r.Steps, other.Steps)
	slices.Sort(steps)
	return Refs{
		Input:  r.Input || other.Input,
		Item:   r.Item || other.Item,
		Index:  r.Index || other.Index,
		Output: r.Output || other.Output,
		Run:    r.Run || other.Run,
		Steps:  slices.Compact(steps),
	}
}

// analysis walks an expression once. It finds what the expression refers to, follows what is known of the data's shapes,
// and finds fields that cannot exist. In the tree it puts a name of the right type in place of every value whose kind is
// known, so that CEL's own check finds wrong types.
type analysis struct {
	source   string
	tree     *ast.AST
	rewriter *rewriter
	names    Names
	// locals are the variables of the macros around the present place.
	locals map[string]*Shape
	steps  map[string]bool
	refs   Refs
	shape  *Shape
	errors Errors
}

func analyse(source string, parsed *cel.Ast, names Names) *analysis {
	tree := parsed.NativeRep()
	a := &analysis{source: source, tree: tree, rewriter: newRewriter(tree), names: names, steps: map[string]bool{}}
	a.shape = a.visit(a.tree.Expr())
	a.refs.Steps = slices.Sorted(maps.Keys(a.steps))
	return a
}

// visit walks an expression and gives its shape.
func (a *analysis) visit(e ast.Expr) *Shape {
	shape := a.follow(e)
	for _, p := range placeholders() {
		if p.kind == shape.Kind && isPath(e) {
			e.SetKindCase(a.rewriter.factory.NewIdent(e.ID(), p.name))
		}
	}
	return shape
}

// isPath says whether an expression only picks a part of the data.
func isPath(e ast.Expr) bool {
	switch e.Kind() {
	case ast.IdentKind:
		return true
	case ast.SelectKind:
		return !e.AsSelect().IsTestOnly()
	case ast.CallKind:
		return e.AsCall().FunctionName() == operators.Index
	default:
		return false
	}
}

func (a *analysis) follow(e ast.Expr) *Shape {
	switch e.Kind() {
	case ast.IdentKind:
		return a.ident(e)
	case ast.SelectKind:
		return a.selection(e)
	case ast.CallKind:
		return a.call(e)
	case ast.ComprehensionKind:
		return a.comprehension(e.AsComprehension())
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			a.visit(item)
		}
	case ast.MapKind:
		return a.object(e.AsMap())
	case ast.StructKind:
		a.fail(e, "messages cannot be made here; write a map: {'name': value}")
	case ast.LiteralKind:
		return literalShape(e.AsLiteral())
	case ast.UnspecifiedExprKind:
	}
	return &Shape{}
}

func (a *analysis) ident(e ast.Expr) *Shape {
	name := e.AsIdent()
	if shape, local := a.locals[name]; local {
		return shape
	}
	switch name {
	case nameInput:
		a.refs.Input = true
		return orUnknown(a.names.Input)
	case nameRun:
		a.refs.Run = true
		return runShape()
	case nameItem:
		a.refs.Item = true
		return a.placed(e, a.names.Item, "is known only in a step with for_each")
	case nameIndex:
		a.refs.Index = true
		a.placed(e, a.names.Item, "is known only in a step with for_each")
		return &Shape{Kind: Integer}
	case nameOutput:
		a.refs.Output = true
		return a.placed(e, a.names.Output, "is known only in review.when and in the rules of a validate step; write steps.<name>.output for the output of a step")
	case nameSteps:
		a.fail(e, "write steps.<name>.output for the output of a step")
		return &Shape{}
	default: // what does not exist at all, CEL's check finds
		return &Shape{}
	}
}

func (a *analysis) placed(e ast.Expr, shape *Shape, problem string) *Shape {
	if shape == nil {
		a.fail(e, e.AsIdent()+" "+problem)
	}
	return orUnknown(shape)
}

// selection follows a.b.
func (a *analysis) selection(e ast.Expr) *Shape {
	s := e.AsSelect()
	if a.isSteps(s.Operand()) {
		a.fail(e, fmt.Sprintf("write steps.%s.output for the output of a step", s.FieldName()))
		return &Shape{}
	}
	if s.Operand().Kind() == ast.SelectKind && a.isSteps(s.Operand().AsSelect().Operand()) {
		return a.stepOutput(e, s.Operand().AsSelect().FieldName(), s.FieldName())
	}
	shape := a.field(e, a.follow(s.Operand()), s.FieldName())
	if s.IsTestOnly() {
		return &Shape{Kind: Bool}
	}
	return shape
}

func (a *analysis) isSteps(e ast.Expr) bool {
	_, local := a.locals[nameSteps]
	return e.Kind() == ast.IdentKind && e.AsIdent() == nameSteps && !local
}

func (a *analysis) stepOutput(e ast.Expr, step, field string) *Shape {
	if field != nameOutput {
		a.fail(e, fmt.Sprintf("a step has no %q; write steps.%s.output", field, step))
		return &Shape{}
	}
	a.steps[step] = true
	shape, known := a.names.Steps[step]
	if !known {
		a.fail(e.AsSelect().Operand(), a.missingStep(step))
	}
	return orUnknown(shape)
}

func (a *analysis) missingStep(step string) string {
	if a.names.Missing != nil {
		return a.names.Missing(step)
	}
	return fmt.Sprintf("there is no step %q%s", step, suggest.DidYouMean(step, maps.Keys(a.names.Steps)))
}

// field gives the shape of a field, and reports one that cannot exist.
func (a *analysis) field(e ast.Expr, of *Shape, name string) *Shape {
	switch of.Kind {
	case Object:
		if shape, known := of.Fields[name]; known {
			return orUnknown(shape)
		}
		if of.Closed {
			a.fail(e, fmt.Sprintf("there is no field %q%s", name, fieldHint(name, of)))
		}
	case List:
		a.fail(e, fmt.Sprintf("a list has no field %q; write [0] for its first item, or use map()", name))
	case Bool, Integer, Number, String:
		a.fail(e, fmt.Sprintf("a %s has no field %q", of.Kind, name))
	case Unknown:
	}
	return &Shape{}
}

func fieldHint(name string, of *Shape) string {
	if hint := suggest.DidYouMean(name, maps.Keys(of.Fields)); hint != "" {
		return hint
	}
	if len(of.Fields) == 0 {
		return ""
	}
	return fmt.Sprintf("; there are %q", slices.Sorted(maps.Keys(of.Fields)))
}

// call follows a[b] and a.?b, and walks the arguments of every other function.
func (a *analysis) call(e ast.Expr) *Shape {
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.Index, optionalIndex:
		a.visit(c.Args()[1])
		of := a.follow(c.Args()[0])
		if c.FunctionName() == operators.Index && of.Kind == List {
			return of.Item()
		}
		return a.key(e, of, c.Args()[1])
	case optionalSelect:
		a.key(e, a.follow(c.Args()[0]), c.Args()[1])
		return &Shape{}
	}
	if c.IsMemberFunction() {
		a.visit(c.Target())
	}
	var shapes []*Shape
	for _, argument := range c.Args() {
		shapes = append(shapes, a.visit(argument))
	}
	return a.open(e, shapes)
}

// open lets numbers of different types of CEL's meet in ==, != and ?:, and gives the shape of the latter where its
// branches agree.
func (a *analysis) open(e ast.Expr, shapes []*Shape) *Shape {
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals:
		if maybeNumber(shapes[0]) && maybeNumber(shapes[1]) {
			a.rewriter.openOperands(e, 0)
		}
	case operators.Conditional:
		if shapes[1].Kind == shapes[2].Kind && shapes[1].Kind != Unknown {
			return &Shape{Kind: shapes[1].Kind}
		}
		a.rewriter.openOperands(e, 1)
	}
	return &Shape{}
}

func maybeNumber(s *Shape) bool { return s.Kind == Unknown || s.Kind == Integer || s.Kind == Number }

// key follows a field whose name is written as a string.
func (a *analysis) key(e ast.Expr, of *Shape, key ast.Expr) *Shape {
	if key.Kind() != ast.LiteralKind || of.Kind != Object {
		return &Shape{}
	}
	name, ok := key.AsLiteral().(types.String)
	if !ok {
		return &Shape{}
	}
	shape := a.field(e, of, string(name))
	if e.AsCall().FunctionName() != operators.Index {
		return &Shape{}
	}
	return shape
}

// comprehension follows what the macros (map, filter, all, …) become.
func (a *analysis) comprehension(c ast.ComprehensionExpr) *Shape {
	items := a.visit(c.IterRange())
	a.visit(c.AccuInit())
	outer := a.locals
	a.locals = maps.Clone(outer)
	if a.locals == nil {
		a.locals = map[string]*Shape{}
	}
	a.locals[c.AccuVar()] = &Shape{}
	first, second := iterated(items)
	if !c.HasIterVar2() && items.Kind == List {
		first = second
	}
	a.locals[c.IterVar()] = first
	if c.HasIterVar2() {
		a.locals[c.IterVar2()] = second
	}
	for _, part := range []ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
		a.visit(part)
	}
	a.locals = outer
	return &Shape{}
}

// iterated gives the shapes of the keys (or indices) and of the values that a macro walks over.
func iterated(over *Shape) (key, value *Shape) {
	switch over.Kind {
	case List:
		return &Shape{Kind: Integer}, over.Item()
	case Object:
		return &Shape{Kind: String}, &Shape{}
	case Unknown, Bool, Integer, Number, String:
	}
	return &Shape{}, &Shape{}
}

func (a *analysis) object(m ast.MapExpr) *Shape {
	shape := &Shape{Kind: Object, Closed: true, Fields: map[string]*Shape{}}
	for _, entry := range m.Entries() {
		pair := entry.AsMapEntry()
		a.visit(pair.Key())
		value := a.visit(pair.Value())
		name, literal := pair.Key().AsLiteral().(types.String)
		if pair.Key().Kind() != ast.LiteralKind || !literal || pair.IsOptional() {
			shape.Closed = false
			continue
		}
		shape.Fields[string(name)] = value
	}
	return shape
}

func (a *analysis) fail(e ast.Expr, message string) {
	at, _ := a.tree.SourceInfo().GetOffsetRange(e.ID())
	a.errors = append(a.errors, Error{Offset: runesToBytes(a.source, int(at.Start)), Message: message})
}

func literalShape(value ref.Val) *Shape {
	switch value.(type) {
	case types.Bool:
		return &Shape{Kind: Bool}
	case types.Int, types.Uint:
		return &Shape{Kind: Integer}
	case types.Double:
		return &Shape{Kind: Number}
	case types.String:
		return &Shape{Kind: String}
	default:
		return &Shape{}
	}
}

func orUnknown(shape *Shape) *Shape {
	if shape == nil {
		return &Shape{}
	}
	return shape
}

func runShape() *Shape {
	return &Shape{Kind: Object, Closed: true, Fields: map[string]*Shape{
		"id": {Kind: String}, "entity_id": {Kind: String}, "labels": {Kind: Object},
	}}
}
