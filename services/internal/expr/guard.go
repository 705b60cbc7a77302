package expr

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// CEL charges for what an expression does, but after it was done: a single call can be asked for a terabyte, and lists of
// the same list, sixty levels deep, cost nothing until somebody walks them. So what makes values larger is checked before.
const (
	// maxText bounds a text that an expression makes, in bytes.
	maxText = 64 << 20
	// maxElements bounds a list or map that an expression makes: all values in it at all levels, and a hundredth of the
	// bytes of its texts.
	maxElements = 1_000_000
	// maxDistinct bounds the list that distinct() compares each with each.
	maxDistinct = 10_000
)

// The functions that the guarded program calls. No expression can: @ begins no name.
const (
	sortedFunction = "@sorted"
	sizedFunction  = "@sized"
	guardPrefix    = "@guarded_"
)

// guardOptions declares the guard's functions, over an environment that has the functions they guard.
func guardOptions(base *cel.Env) ([]cel.EnvOption, error) {
	same := cel.TypeParamType("A")
	options := []cel.EnvOption{
		cel.Function(sortedFunction, cel.Overload("sorted_value", []*cel.Type{same}, same, cel.UnaryBinding(sorted))),
		cel.Function(sizedFunction, cel.Overload("sized_value", []*cel.Type{same}, same, cel.UnaryBinding(sized))),
	}
	for name, check := range guardedCalls() {
		option, err := guardedFunction(base, name, check)
		if err != nil {
			return nil, err
		}
		options = append(options, option)
	}
	return options, nil
}

// guardedCalls are the methods whose result can be far larger, or take far longer, than their arguments tell CEL; with
// the checks made before them.
func guardedCalls() map[string]func(args []ref.Val) error {
	return map[string]func(args []ref.Val) error{
		"replace":  checkReplace,
		"join":     checkJoin,
		"distinct": checkDistinct,
	}
}

// guardedFunction declares a method under a name of its own, with a check before it.
func guardedFunction(base *cel.Env, name string, check func([]ref.Val) error) (cel.EnvOption, error) {
	function := base.Functions()[name]
	bindings, err := function.Bindings()
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", name, err)
	}
	implementations := map[string]*functions.Overload{}
	for _, binding := range bindings {
		implementations[binding.Operator] = binding
	}
	var overloads []cel.FunctionOpt
	for _, o := range function.OverloadDecls() {
		implementation := implementations[o.ID()]
		if implementation == nil {
			return nil, fmt.Errorf("guard %s: overload %s has no implementation", name, o.ID())
		}
		overloads = append(overloads, cel.MemberOverload(guardPrefix+o.ID(), o.ArgTypes(), o.ResultType(),
			cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				if err := check(args); err != nil {
					return types.WrapErr(err)
				}
				return invoke(implementation, args)
			})))
	}
	return cel.Function(guardPrefix+name, overloads...), nil
}

func invoke(overload *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case overload.Unary != nil && len(args) == 1:
		return overload.Unary(args[0])
	case overload.Binary != nil && len(args) == 2:
		return overload.Binary(args[0], args[1])
	default:
		return overload.Function(args...)
	}
}

// sized lets a value through that is not too large. Lists and maps remember their size, so that a value of many parts is
// walked once.
func sized(value ref.Val) ref.Val {
	if elements(value) > maxElements {
		return types.NewErr("a value of the expression is larger than %d elements", maxElements)
	}
	return value
}

func elements(value ref.Val) uint64 {
	calculator := types.NewSizeCalculator(
		types.SizeCalculatorMaxDepth(maxElements),
		types.SizeCalculatorMaxTraversal(2*maxElements),
		types.SizeCalculatorStringUnitLength(100),
	)
	return uint64(calculator.AggregateSize(value))
}

// add concatenates or adds, within the limits.
func add(a, b ref.Val) ref.Val {
	switch left := a.(type) {
	case types.String:
		if right, ok := b.(types.String); ok && len(left)+len(right) > maxText {
			return types.WrapErr(tooLong())
		}
	case traits.MutableLister: // a macro's result in the making: sized when it is made
	case traits.Lister:
		if _, ok := b.(traits.Lister); ok && elements(a)+elements(b) > maxElements {
			return types.NewErr("a list of the expression is larger than %d elements", maxElements)
		}
	}
	if left, ok := a.(traits.Adder); ok {
		return left.Add(b)
	}
	return wrongOperands(a, b)
}

func tooLong() error {
	return fmt.Errorf("a text of the expression is longer than %d MiB", maxText>>20)
}

func checkReplace(args []ref.Val) error {
	text, _ := args[0].(types.String)
	old, _ := args[1].(types.String)
	replacement, _ := args[2].(types.String)
	matches := strings.Count(string(text), string(old))
	if len(args) > 3 {
		if limit, ok := args[3].(types.Int); ok && limit >= 0 {
			matches = min(matches, int(limit))
		}
	}
	if growth := len(replacement) - len(old); growth > 0 && matches > (maxText-len(text))/growth {
		return tooLong()
	}
	return nil
}

func checkJoin(args []ref.Val) error {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	separator := 0
	if len(args) > 1 {
		text, _ := args[1].(types.String)
		separator = len(text)
	}
	length := 0
	for it := list.Iterator(); it.HasNext() == types.True; {
		text, _ := it.Next().(types.String)
		if length += len(text) + separator; length > maxText {
			return tooLong()
		}
	}
	return nil
}

func checkDistinct(args []ref.Val) error {
	list, ok := args[0].(traits.Sizer)
	if !ok {
		return nil
	}
	if size, ok := list.Size().(types.Int); ok && size > maxDistinct {
		return fmt.Errorf("distinct() takes lists of %d items at most", maxDistinct)
	}
	return nil
}

// callCost charges for calls that CEL dispatches by the types it meets, and for the guarded ones: by the length of the
// texts that they read and make. For all other calls CEL's own model stands.
type callCost struct{}

// CallCost is asked for by CEL.
func (callCost) CallCost(_, overload string, args []ref.Val, result ref.Val) *uint64 {
	if overload != "" && !strings.HasPrefix(overload, guardPrefix) {
		return nil
	}
	length := textLength(result)
	for _, arg := range args {
		length += textLength(arg)
	}
	cost := 1 + uint64(length)/10
	return &cost
}

func textLength(value ref.Val) int {
	switch v := value.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	default:
		return 0
	}
}
