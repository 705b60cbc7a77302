package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxExact is 2^53: up to there a float64 holds every whole number.
const maxExact = 1 << 53

// arithmetic gives the operators whose standard meaning fails on a whole number beside a fraction. To CEL these are two
// types; in JSON 100 is the amount 100.00 as well, and an expression must not break on the day an amount is round.
func arithmetic() map[string]func(a, b ref.Val) ref.Val {
	return map[string]func(a, b ref.Val) ref.Val{
		operators.Add:      mixed(add),
		operators.Subtract: mixed(subtract),
		operators.Multiply: mixed(multiply),
		operators.Divide:   divide,
	}
}

// replacedOperators are the functions that the standard library must not bring along.
func replacedOperators() []*env.Function {
	var excluded []*env.Function
	for name := range arithmetic() {
		excluded = append(excluded, &env.Function{Name: name})
	}
	return excluded
}

// operatorOptions declares the arithmetic operators, with the standard library's overloads and for a mix of int and
// double. The type of a result that may be a fraction is left open, because CEL's check lets nobody compare a known
// double with an int.
func operatorOptions() []cel.EnvOption {
	var options []cel.EnvOption
	implementations := arithmetic()
	for _, function := range stdlib.Functions() {
		implementation, replaced := implementations[function.Name()]
		if !replaced {
			continue
		}
		overloads := []cel.FunctionOpt{
			cel.SingletonBinaryBinding(implementation),
			cel.Overload(function.Name()+"int_double", []*cel.Type{cel.IntType, cel.DoubleType}, cel.DynType),
			cel.Overload(function.Name()+"double_int", []*cel.Type{cel.DoubleType, cel.IntType}, cel.DynType),
		}
		for _, o := range function.OverloadDecls() {
			result := o.ResultType()
			if function.Name() == operators.Divide {
				result = cel.DynType
			}
			overloads = append(overloads, cel.Overload(o.ID(), o.ArgTypes(), result))
		}
		options = append(options, cel.Function(function.Name(), overloads...))
	}
	return options
}

// mixed makes an operator that turns a whole number beside a fraction into a fraction.
func mixed(operator func(a, b ref.Val) ref.Val) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		if err := uncountable(a, b); err != nil {
			return err
		}
		if a.Type() != b.Type() && number(a) && number(b) {
			return inDoubles(func(a, b types.Double) ref.Val { return operator(a, b) }, a, b)
		}
		if a.Type() != b.Type() && (number(a) || number(b)) {
			return wrongOperands(a, b)
		}
		return operator(a, b)
	}
}

func subtract(a, b ref.Val) ref.Val {
	if left, ok := a.(traits.Subtractor); ok {
		return left.Subtract(b)
	}
	return wrongOperands(a, b)
}

func multiply(a, b ref.Val) ref.Val {
	if left, ok := a.(traits.Multiplier); ok {
		return left.Multiply(b)
	}
	return wrongOperands(a, b)
}

func wrongOperands(a, b ref.Val) ref.Val {
	return types.NewErr("wrong types: %s and %s", a.Type().TypeName(), b.Type().TypeName())
}

// divide divides any two numbers exactly, as far as a float64 goes.
func divide(a, b ref.Val) ref.Val {
	if err := uncountable(a, b); err != nil {
		return err
	}
	if !number(a) || !number(b) {
		return wrongOperands(a, b)
	}
	if b.Equal(types.IntZero) == types.True {
		return types.NewErr("division by zero")
	}
	return inDoubles(func(a, b types.Double) ref.Val { return a / b }, a, b)
}

// inDoubles computes with float64s, unless a whole number has none.
func inDoubles(operator func(a, b types.Double) ref.Val, a, b ref.Val) ref.Val {
	left, err := toDouble(a)
	if err != nil {
		return types.WrapErr(err)
	}
	right, err := toDouble(b)
	if err != nil {
		return types.WrapErr(err)
	}
	return operator(left, right)
}

func toDouble(value ref.Val) (types.Double, error) {
	switch v := value.(type) {
	case types.Double:
		return v, nil
	case types.Int:
		if d := float64(v); v > -maxExact && v < maxExact {
			return types.Double(d), nil
		}
	case types.Uint:
		if d := float64(v); v < maxExact {
			return types.Double(d), nil
		}
	}
	return 0, fmt.Errorf("the whole number %v is too large to compute with in fractions", value.Value())
}

func number(value ref.Val) bool {
	switch value.(type) {
	case types.Int, types.Uint, types.Double:
		return true
	default:
		return false
	}
}

// uncountable gives the error for operands that keep more digits than arithmetic has.
func uncountable(operands ...ref.Val) ref.Val {
	for _, operand := range operands {
		if n, ok := operand.(longNumber); ok {
			return types.NewErr("the number %s has too many digits to compute with", string(n))
		}
	}
	return nil
}
