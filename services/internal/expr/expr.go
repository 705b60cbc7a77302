// Package expr evaluates the expressions of pipelines: CEL inside `${…}`.
//
// It promises three things on which paying once rests. The same data always gives the same bytes: there is no clock and
// no randomness, maps are walked in key order, and values are written canonically (package canon). An expression cannot
// harm its host: it has no functions that reach outside, and a limit on what it may cost. And what an expression refers
// to is known before it runs ([Refs]), so that only that is loaded.
//
// Three differences from plain CEL follow from JSON, which has one type of number where CEL has three: 1.0 is the same
// number as 1, whole and fractional numbers mix in arithmetic, and `/` always divides exactly (7 / 2 is 3.5). A number
// that neither an int64 nor a float64 holds exactly is handed on untouched, but cannot be computed with.
//
// [Env], [Expr] and [Template] are immutable and safe for concurrent use; a [Scope] belongs to one goroutine.
package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

const (
	// costLimit bounds one evaluation, in CEL's cost units: about a second of one core in the worst case. Trimming a text
	// of 1 MiB costs 100 000.
	costLimit = 10_000_000
	// maxLength bounds one expression, in characters.
	maxLength = 20_000
	// maxNesting bounds how deep expressions are nested. What is nested deeper costs seconds to check.
	maxNesting = 100
)

// Env is the language: its functions and the names an expression may use.
type Env struct{ cel *cel.Env }

// NewEnv builds the language. It is costly (milliseconds); one Env serves a whole process.
func NewEnv() (*Env, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: replacedOperators()})),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxLength),
		cel.ParserRecursionLimit(maxNesting),
		ext.Strings(ext.StringsVersion(5)),
		ext.Lists(ext.ListsVersion(3)),
		ext.Math(ext.MathVersion(2)),
		ext.TwoVarComprehensions(ext.TwoVarComprehensionsVersion(1)),
	}
	options = append(options, operatorOptions()...)
	options = append(options, variables()...)
	base, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	if options, err = guardOptions(base); err != nil {
		return nil, err
	}
	guarded, err := base.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("build guarded CEL environment: %w", err)
	}
	return &Env{guarded}, nil
}

// Expr is a compiled expression.
type Expr struct {
	source  string
	program cel.Program
	refs    Refs
	shape   *Shape
}

// Compile compiles an expression (without `${` and `}`) that may use the given names. The error is of type [Errors].
func (e *Env) Compile(source string, names Names) (*Expr, error) {
	parsed, issues := e.cel.Parse(source)
	if issues.Err() != nil {
		return nil, e.fromIssues(source, issues, names)
	}
	analysis := analyse(source, parsed, names)
	typed, issues := e.cel.Check(parsed)
	if errs := append(analysis.errors, e.fromIssues(source, issues, names)...); len(errs) > 0 {
		return nil, errs.sorted()
	}
	program, err := e.plan(source)
	if err != nil {
		return nil, Errors{{Message: err.Error()}}
	}
	shape := analysis.shape
	if shape.Kind == Unknown {
		shape = shapeOfType(typed.OutputType())
	}
	return &Expr{source: source, program: program, refs: analysis.refs, shape: shape}, nil
}

// plan makes the program that is evaluated: without what is known of the data, since data may break promises (an output
// that an operator corrected), and guarded.
func (e *Env) plan(source string) (cel.Program, error) {
	parsed, issues := e.cel.Parse(source)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	guard(parsed.NativeRep())
	checked, issues := e.cel.Check(parsed)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return e.cel.Program(checked, cel.CostLimit(costLimit), cel.CostTracking(callCost{}), cel.EvalOptions(cel.OptOptimize))
}

// Refs says what the expression refers to.
func (x *Expr) Refs() Refs { return x.refs }

// String gives the expression as it stands in a template.
func (x *Expr) String() string { return "${" + x.source + "}" }

// Shape says what is known of the expression's result.
func (x *Expr) Shape() *Shape { return x.shape }

// Value evaluates the expression to a JSON value as package canon has them: nil, bool, string, [encoding/json.Number],
// []any or map[string]any. The error is of type *[EvalError].
func (x *Expr) Value(scope *Scope) (any, error) {
	result, err := x.eval(scope)
	if err != nil {
		return nil, err
	}
	value, err := toJSON(result)
	if err != nil {
		return nil, &EvalError{Source: x.source, Message: err.Error()}
	}
	return value, nil
}

// Bool evaluates the expression to true or false; any other result is an error. The error is of type *[EvalError].
func (x *Expr) Bool(scope *Scope) (bool, error) {
	value, err := x.Value(scope)
	if err != nil {
		return false, err
	}
	b, ok := value.(bool)
	if !ok {
		return false, &EvalError{Source: x.source, Message: "must give true or false, and gave " + describe(value)}
	}
	return b, nil
}

func (x *Expr) eval(scope *Scope) (ref.Val, error) {
	scope.err = nil
	result, _, err := x.program.Eval(scope)
	if scope.err != nil {
		return nil, &EvalError{Source: x.source, Message: scope.err.Error()}
	}
	if err != nil {
		return nil, &EvalError{Source: x.source, Message: plainMessage(err.Error())}
	}
	return result, nil
}
