package pipeline

import (
	"encoding/json"
	"fmt"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

// validate is what a validate step checks.
type validate struct {
	value  *value
	schema *Schema
	rules  []rule
}

// rule is a condition on a value, and what to say when it is not met.
type rule struct {
	condition *expr.Expr
	message   *expr.Template
}

// Validation is the result of a validate step.
type Validation struct {
	// Value is the value that was checked: canonical JSON. It is the step's output if there are no violations.
	Value json.RawMessage
	// Schema has the violations of the schema. The rules are checked only when there are none.
	Schema []Violation
	// Rules has the rules that are not met.
	Rules []Violation
}

// validation compiles the block of a validate step, and gives the shape of its output.
func (b *build) validation(s *Step, spec *pawlv1.ValidateStep, names expr.Names) *expr.Shape {
	where := s.where.then("validate")
	v := &validate{value: &value{kind: null}}
	if b.has(where.then("value")) {
		v.value = b.value(where.then("value"), names)
	}
	v.schema = b.schema(where.then("schema"))
	if v.schema == nil && len(spec.GetRules()) == 0 && !b.has(where.then("schema")) {
		b.fail(where, "checks nothing; give it a schema or rules")
	}
	output := v.value.shape()
	if v.schema != nil {
		if known := shapeOfSchema(b.doc.root.find(where.then("schema"))); known.Kind != expr.Unknown {
			output = known
		}
	}
	names.Output = output
	s.Kind, s.validate = Validate, v
	s.BodyRefs = v.value.refs()
	for i := range spec.GetRules() {
		r := b.rule(where.then("rules", i), names)
		if r.condition != nil && r.message != nil {
			s.BodyRefs = s.BodyRefs.Union(r.condition.Refs()).Union(r.message.Refs())
			v.rules = append(v.rules, r)
		}
	}
	return output
}

func (b *build) rule(where path, names expr.Names) rule {
	return rule{
		condition: b.expression(where.then("expr"), names, expr.Bool),
		message:   b.template(where.then("message"), names),
	}
}

func (v *validate) check(scope *expr.Scope) (*Validation, error) {
	value, err := v.value.eval(scope)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	result := &Validation{}
	if result.Value, err = canon.Append(nil, value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if v.schema != nil {
		result.Schema = v.schema.Validate(value)
	}
	if len(result.Schema) > 0 {
		return result, nil
	}
	scope = scope.WithOutput(result.Value)
	for i, rule := range v.rules {
		broken, err := rule.check(scope)
		if err != nil {
			return nil, fmt.Errorf("rules[%d]: %w", i, err)
		}
		if broken != nil {
			result.Rules = append(result.Rules, *broken)
		}
	}
	return result, nil
}

// check gives what to say of the value; nil if the rule is met.
func (r rule) check(scope *expr.Scope) (*Violation, error) {
	met, err := r.condition.Bool(scope)
	if err != nil || met {
		return nil, err
	}
	message, err := r.message.Text(scope)
	return &Violation{Message: message}, err
}
