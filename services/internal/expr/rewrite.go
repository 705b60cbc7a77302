package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
)

// guard rewrites a program: macros walk maps in key order, lists and maps that are made are sized, and guarded methods
// replace what they guard.
func guard(tree *ast.AST) {
	r := newRewriter(tree)
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(r.noteSteps))
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(r.rewrite))
}

// rewriter changes an expression's tree in place.
type rewriter struct {
	factory ast.ExprFactory
	id      int64
	// steps are the parts of map() and filter() that append an item to their result. CEL recognises them by their form to
	// append in place, so they must stay; the result as a whole is sized.
	steps map[int64]bool
}

func newRewriter(tree *ast.AST) *rewriter {
	return &rewriter{factory: ast.NewExprFactory(), id: ast.MaxID(tree), steps: map[int64]bool{}}
}

func (r *rewriter) noteSteps(e ast.Expr) {
	if e.Kind() != ast.ComprehensionKind {
		return
	}
	step := e.AsComprehension().LoopStep()
	if isCall(step, operators.Conditional) {
		r.steps[step.ID()] = true
		step = step.AsCall().Args()[1]
	}
	if isCall(step, operators.Add) {
		r.steps[step.AsCall().Args()[1].ID()] = true
	}
}

func isCall(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
}

func (r *rewriter) rewrite(e ast.Expr) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		e.SetKindCase(r.call(sizedFunction, r.factory.NewComprehensionTwoVar(r.next(), r.call(sortedFunction, c.IterRange()),
			c.IterVar(), c.IterVar2(), c.AccuVar(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())))
	case ast.ListKind:
		if l := e.AsList(); l.Size() > 0 && !r.steps[e.ID()] {
			e.SetKindCase(r.call(sizedFunction, r.factory.NewList(r.next(), l.Elements(), l.OptionalIndices())))
		}
	case ast.MapKind:
		e.SetKindCase(r.call(sizedFunction, r.factory.NewMap(r.next(), e.AsMap().Entries())))
	case ast.CallKind:
		r.rewriteCall(e)
	default:
	}
}

func (r *rewriter) rewriteCall(e ast.Expr) {
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals:
		r.openOperands(e, 0)
	case operators.Conditional:
		if !r.steps[e.ID()] {
			r.openOperands(e, 1)
		}
	default:
		if _, guarded := guardedCalls()[c.FunctionName()]; guarded && c.IsMemberFunction() {
			e.SetKindCase(r.factory.NewMemberCall(e.ID(), guardPrefix+c.FunctionName(), c.Target(), c.Args()...))
		}
	}
}

// openOperands hides the types of a call's operands from CEL's check, which knows no way for an int and a double to meet.
func (r *rewriter) openOperands(e ast.Expr, from int) {
	operands := slices.Clone(e.AsCall().Args())
	for i := from; i < len(operands); i++ {
		operands[i] = r.call(overloads.TypeConvertDyn, operands[i])
	}
	e.SetKindCase(r.factory.NewCall(e.ID(), e.AsCall().FunctionName(), operands...))
}

func (r *rewriter) call(function string, argument ast.Expr) ast.Expr {
	return r.factory.NewCall(r.next(), function, argument)
}

func (r *rewriter) next() int64 {
	r.id++
	return r.id
}
